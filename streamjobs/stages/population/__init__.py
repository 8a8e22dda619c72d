"""What rows are compared with that people left out have taught: `fit` learns it, a population's file holds it."""

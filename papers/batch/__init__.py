"""What the papers compare the learners with: solvers that need all rows at hand, as functions, and learners for study."""

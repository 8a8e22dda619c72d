"""Learners that track a low-rank subspace of the kernel's feature space."""

"""Records of optional sections, imported by the jobs that have them."""

"""Dictionaries of atoms in the kernel's space: sparse codes as features."""

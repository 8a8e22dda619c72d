"""The README says what is there, and what is there is in the README."""

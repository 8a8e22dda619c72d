"""The process: signals, memory, LAPACK."""

"""The commands, listed in `cli`. Heavy packages (numpy, numba, Kafka) are imported when used."""

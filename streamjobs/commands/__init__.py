"""The commands, one file per group with an `add_to(app)`. Heavy packages (numpy, numba, Kafka) are imported when used."""

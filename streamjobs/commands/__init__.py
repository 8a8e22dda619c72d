"""The commands, a file per group; each has `add_to(app)`. What is heavy (numpy, numba, Kafka) is imported when used."""

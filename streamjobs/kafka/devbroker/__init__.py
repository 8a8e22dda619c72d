"""A real Apache Kafka on this machine, for development and tests."""

"""The worker on a real Apache Kafka: a test bed, and what holds on it."""

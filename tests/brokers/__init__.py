"""The worker on a real Apache Kafka: a test job, and what holds on it."""

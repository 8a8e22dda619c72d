"""The worker's core without Kafka: recorded samples in, the same numbers out, bit for bit."""

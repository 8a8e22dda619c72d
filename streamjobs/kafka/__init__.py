"""Kafka for everybody: connections, credentials, topics, rights, reading. Nothing here knows what a job learns."""

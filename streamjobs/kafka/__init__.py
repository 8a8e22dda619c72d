"""Connections to Kafka, credentials, topics, rights and reading. Nothing here knows what a job learns."""

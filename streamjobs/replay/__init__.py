"""Runs recorded samples through the worker's core without Kafka; the numbers equal a worker's bit for bit."""

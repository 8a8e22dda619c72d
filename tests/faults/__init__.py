"""Workers killed, joined, left, frozen and robbed of their disk on a real Kafka; `python -m tests.faults` runs long."""

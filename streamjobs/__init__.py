"""streamjobs: per-key online kernel learners over Kafka topics."""

__version__ = "0.2.0"

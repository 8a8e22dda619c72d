"""A batch of records through a partition's states: no Kafka, no clock, no file, no log. The one entry is `advance`."""

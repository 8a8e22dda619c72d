"""One partition's pipeline, pure: no Kafka, no clock, no file, no log. The one entry is `advance`."""

"""The only place that knows Kafka, Faust, clocks, files and sockets."""

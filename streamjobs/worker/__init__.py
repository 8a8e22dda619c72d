"""The worker: fetch, apply, checkpoint, recover; its health, logs and metrics. The only place that runs Faust."""

"""Dashboards for Grafana, written as JSON; needs the extra `grafana`. Queries are PromQL on the metrics of a worker."""

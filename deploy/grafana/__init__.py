"""Source of the dashboards in streamjobs/commands/dashboards. Queries are PromQL on the metrics of a worker."""

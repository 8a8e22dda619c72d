"""Dashboards for Grafana as JSON, written by deploy/grafana."""

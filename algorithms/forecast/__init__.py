"""Forecasts of columns from their own past."""

"""Replay, drift alarms counted in recordings, tuning."""

"""A job in Python: replays of tables, estimators, pictures, the notebook."""

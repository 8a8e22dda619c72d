"""A job in Python: replay tables through it, get tables back, draw them."""

"""Speed, printed and never asserted: `python -m tests.bench learners|statistics|worker`."""

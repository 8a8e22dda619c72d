"""Speed, printed and never asserted: `python -m tests.bench learners|worker`."""

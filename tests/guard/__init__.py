"""What a record and a start cost in counts that need no quiet machine, and a test that no count grows unnoticed."""

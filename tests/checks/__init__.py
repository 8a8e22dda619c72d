"""The shared check-suite: every check runs over every registered learner, without exceptions."""

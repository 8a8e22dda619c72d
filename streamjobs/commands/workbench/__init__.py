"""Commands for experiments: pictures of outputs, checks of a user's own learner."""

"""Commands for a job at the desk: sizes, settings, pictures of outputs, checks of a user's own learner."""

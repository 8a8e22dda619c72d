"""Commands for a job at the desk: settings, exports and pictures of outputs, new references, own learners."""

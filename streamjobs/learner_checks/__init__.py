"""The check-suite that every learner is held by, the registry's and your own: `streamjobs check-learner`."""

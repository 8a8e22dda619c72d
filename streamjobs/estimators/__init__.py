"""What the classes of streamjobs.sklearn and streamjobs.river are made of: the registry, and one learner at work."""

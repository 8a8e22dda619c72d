"""What a key's samples pass before and after the learner; each stage owns its settings, its state and its compiled loop."""

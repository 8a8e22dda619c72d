"""What a job needs of machines: slopes that were measured, and what this job's learner costs on this machine."""

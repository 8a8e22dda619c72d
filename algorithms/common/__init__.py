"""What every learner stands on: the protocol, compiled loops, kernels, linear algebra with fixed signs, randomness."""

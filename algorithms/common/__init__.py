"""What every learner is built on: the protocol, compiled loops, kernels, linear algebra with fixed signs, randomness."""

"""Kernel perceptrons and gradient steps on stored samples, each with its own way to keep to a budget."""

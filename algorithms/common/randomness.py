"""Randomness as a stateless function of integers, so that a replay draws the same: nothing keeps a generator."""

import numpy as np

from algorithms.common.compiled import compiled


@compiled
def mixed(seed: int, purpose: int, counter: int) -> np.uint64:
    """64 well-mixed bits of (seed, purpose, counter): splitmix64 over the three."""
    z = np.uint64(seed)
    for word in (np.uint64(purpose), np.uint64(counter), np.uint64(0x632BE59BD9B4E019)):
        z = z + np.uint64(0x9E3779B97F4A7C15) + word * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z


@compiled
def uniform(seed: int, purpose: int, counter: int) -> float:
    """A number in [0, 1)."""
    return float(mixed(seed, purpose, counter) >> np.uint64(11)) * 1.1102230246251565e-16


@compiled
def normal(seed: int, purpose: int, counter: int) -> float:
    """A standard normal number (Box-Muller on two draws)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - uniform(seed, purpose, 2 * counter)))
    return radius * np.cos(2.0 * np.pi * uniform(seed, purpose, 2 * counter + 1))

"""The rich and the gravity-aligned statistics of one window by NumPy, as plainly as their definition reads."""

import itertools

import numpy as np

FLOOR, BANDS, FLAT = 1e-3, (0.4, 1.0, 2.0, 4.0, 10.0), 1e-10


def spectrum_size(room):
    """Points of the transform of windows kept in arrays of `room` samples."""
    size = 4
    while size < 1.5 * room - 0.5:
        size *= 2
    return size


def rich(samples, rate, size):
    """The statistics of samples (n, dim)."""
    dim = samples.shape[1]
    triples = [samples[:, at : at + 3] for at in range(0, dim - 2, 3)]
    out = [number for signal in samples.T for number in fourteen(signal, rate, size)]
    for triple in triples:
        x, y, z = triple.T
        out += [correlation(x, y), correlation(x, z), correlation(y, z)]
    for triple in triples:
        numbers = fourteen(np.linalg.norm(triple, axis=1), rate, size)
        out += [*numbers[:3], numbers[4], numbers[5]]
    return np.array(out)


def gravity(samples, rate, size):
    """The same of the vertical component, the horizontal magnitude and the norm of every triple."""
    up = samples[:, :3].mean(axis=0)
    largest = np.linalg.norm(samples[:, :3], axis=1).max()
    up = up / np.linalg.norm(up) if np.linalg.norm(up) > FLAT * largest else np.zeros(3)
    aligned = []
    for at in range(0, samples.shape[1] - 2, 3):
        triple = samples[:, at : at + 3]
        vertical = triple @ up
        horizontal = np.linalg.norm(triple - np.outer(vertical, up), axis=1)
        norm = np.linalg.norm(triple, axis=1)
        aligned.append(((vertical, horizontal, norm), norm.max()))
    out = [number for signals, grain in aligned for signal in signals for number in fourteen(signal, rate, size, grain)]
    for signal in samples.T[3 * len(aligned) :]:
        out += fourteen(signal, rate, size)
    (first, first_grain) = aligned[0]
    for number, (signals, grain) in enumerate(aligned):
        out.append(correlation(signals[0], signals[1], grain, grain))
        if number:
            out += [correlation(first[i], signals[j], first_grain, grain) for i, j in ((0, 0), (0, 1), (1, 1))]
    return np.array(out)


def fourteen(signal, rate, size, grain=0.0):
    """`grain`: the size of what the signal was made from, where rounding comes from."""
    n, mean = len(signal), signal.mean()
    centred = signal - mean
    sd = 0.0 if is_flat(signal, grain) else centred.std()
    jerk = np.abs(np.diff(signal)).mean()
    numbers = [mean, np.log(sd + FLOOR), np.log(jerk + FLOOR), *np.percentile(centred, [5, 25, 75, 95])]
    if sd == 0.0:
        return [*numbers, 0.0, 0.0, 0.0, *[np.log(FLOOR)] * 4]

    power = np.abs(np.fft.rfft(centred / sd, size)) ** 2
    frequencies = np.arange(len(power)) * rate / size
    inside = np.flatnonzero((frequencies >= BANDS[0]) & (frequencies < BANDS[-1]))
    if len(inside):
        top = inside[power[inside].argmax()]
        numbers += [frequencies[top], 2 * power[top] / n**2]
    else:
        numbers += [0.0, 0.0]

    lags = range(n // 2 + 1)
    autocorrelation = [centred[lag:] @ centred[: n - lag] / (centred @ centred) for lag in lags]
    below = [lag for lag in lags if autocorrelation[lag] < 0]
    numbers.append(max(0.0, *autocorrelation[below[0] :]) if below else 0.0)

    both_sides = np.full(len(power), 2.0)
    both_sides[0] = both_sides[-1] = 1.0
    for low, high in itertools.pairwise(BANDS):
        energy = (both_sides * power)[(frequencies >= low) & (frequencies < high)].sum() / (size * n)
        numbers.append(np.log(sd * np.sqrt(energy) + FLOOR))
    return numbers


def correlation(a, b, grain_a=0.0, grain_b=0.0):
    if is_flat(a, grain_a) or is_flat(b, grain_b):
        return 0.0
    return float(np.mean((a - a.mean()) * (b - b.mean())) / (a.std() * b.std()))


def is_flat(signal, grain):
    return signal.std() <= FLAT * max(abs(signal.mean()), grain)

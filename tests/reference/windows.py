"""Windows of raw signals, one key, as plainly and slowly as the definition reads; and their statistics by NumPy."""

import numpy as np

LAGS = (0.08, 0.16, 0.5)


def windows(times, X, L, learn, untimed=None, *, length, hop, rate, gap, label="majority", fewest=0.8):
    """Rows (end, statistics, labels, learn, number of the sample that ended it) and counts of what was skipped.

    untimed: whether a sample's time is only its record's timestamp, which may go back.
    """
    times = list(times)
    nominal = round(length * rate)
    room = int(np.ceil(1.5 * nominal))
    rows, skipped = [], {}
    origin, number, newest, kept = None, 0, None, []

    def count(reason):
        skipped[reason] = skipped.get(reason, 0) + 1

    def end_window(n):
        nonlocal number, kept
        start = origin + number * hop
        end = start + length
        if len(kept) < fewest * nominal:
            count("sparse")
        else:
            inside = np.array([X[i] for i in kept])
            if len(kept) < 0.8 * nominal or (fewest < 0.8 and len(kept) > 1.05 * nominal):
                own = np.array([times[i] for i in kept])
                inside = np.array([between(own, inside, start + i * (1 / rate)) for i in range(nominal)])
            labels = np.array([L[i] for i in kept])
            bits = 3
            for i in kept:
                bits &= learn[i]
            rows.append((end, statistics(inside, rate), _labels(labels, label), bits, n))
        number += 1
        kept = [i for i in kept if times[i] >= origin + number * hop]

    for n, time in enumerate(times):
        if newest is not None and time < newest:
            if untimed is None or not untimed[n]:
                count("late")
                continue
            if newest - time <= gap:
                time = times[n] = newest
        if newest is None or abs(time - newest) > gap:
            if kept:
                count("gap")
            origin, number, kept = time, 0, []
        while time >= origin + number * hop + length:
            end_window(n)
        newest = time
        if time >= origin + number * hop:
            if len(kept) == room and fewest < 0.8:
                thinned = kept[:1]
                for i in kept[1:]:
                    if times[i] - times[thinned[-1]] >= 0.75 / rate:
                        thinned.append(i)
                kept = thinned
            if len(kept) < room:
                kept.append(n)
            else:
                count("crowded")
        if time + 1.5 / rate >= origin + number * hop + length:
            end_window(n)
    return rows, skipped


def between(times, X, time):
    """On the line between the last sample before a time and the first one that is not before; else the only one of both."""
    before, after = np.flatnonzero(times < time), np.flatnonzero(times >= time)
    if not len(before) or not len(after):
        return X[before[-1] if len(before) else after[0]]
    one, other = before[-1], after[0]
    return X[one] + (time - times[one]) / (times[other] - times[one]) * (X[other] - X[one])


def statistics(samples, rate):
    """The 8 numbers of each channel of samples (n, dim), channel after channel."""
    out = []
    for signal in samples.T:
        centred = signal - signal.mean()
        flat = np.abs(centred).max() <= 1e-10 * abs(signal.mean())
        energy = 0.0 if flat else float(centred @ centred)
        low, high = np.percentile(centred, [25, 75])
        sd, jerk = np.sqrt(energy / len(signal)), np.abs(np.diff(signal)).sum() / max(1, len(signal) - 1)
        echoes = []
        for seconds in LAGS:
            lag = max(1, int(seconds * rate + 0.5))
            product = float(centred[lag:] @ centred[:-lag]) if lag < len(signal) else 0.0
            echoes.append(product / energy if energy > 0 else 0.0)
        out += [signal.mean(), np.log(sd + 1e-3), np.log(jerk + 1e-3), low, high, *echoes]
    return np.array(out)


def _labels(labels, how):
    out = []
    for column in labels.T:
        known = column[~np.isnan(column)]
        if len(known) == 0:
            out.append(np.nan)
        elif how == "mean":
            out.append(known.mean())
        else:
            values, counts = np.unique(known, return_counts=True)
            out.append(values[counts.argmax()])
    return out

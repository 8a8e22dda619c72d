"""One step of recursive least squares, and its covariance matrix P: whole in a workspace, half of it in a state."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, largest

WIND_UP = 1e4  # most growth of P's trace beyond its start


@compiled
def learn(weights, bias, P, x, y, prediction, z, u, gain, along, forgetting, delta):
    """gain = P z / (lambda + z'P z), w += gain (y - prediction)', P = (P - gain z'P) / lambda.

    z is x, with the constant input (1, never written) behind it where P has a row for it; u, gain (len(P)) and
    along (targets) are room to work in. A step that would leave the range is not taken; False then.
    """
    size = len(P)
    for i in range(x.size):
        z[i] = x[i]
    for t in range(y.size):
        along[t] = y[t] - prediction[t]
    spread = _product(P, z, u)
    if not spread >= 0.0:  # rounding left P indefinite
        _restart(P, delta)
        spread = _product(P, z, u)
    total = forgetting + spread
    for i in range(size):
        gain[i] = u[i] / total
        u[i] /= np.sqrt(total)
    if not (largest(along) * largest(gain) < LARGEST_STEP and total < LARGEST_STEP * LARGEST_STEP):
        return False
    for i in range(x.size):
        for t in range(y.size):
            weights[i, t] += gain[i] * along[t]
    if size > x.size:
        for t in range(y.size):
            bias[t] += gain[x.size] * along[t]
    _downdate(P, u, forgetting, delta)
    return True


@compiled
def learn_apart(weights, P, x, along, u, forgetting, delta):
    """The same with P (n, n) of the first n - 1 inputs alone, its last number the variance of each of the other inputs.

    That becomes the mean of what their variances would be. The constant input keeps its weights. along: y - prediction.
    """
    joint = len(P) - 1
    rest = 0.0
    for i in range(joint, x.size):
        rest += x[i] * x[i]
    spread = _product(P[:joint, :joint], x[:joint], u[:joint])
    if not (spread >= 0.0 and P[joint, joint] >= 0.0):  # rounding left P indefinite
        _restart(P, delta)
        spread = _product(P[:joint, :joint], x[:joint], u[:joint])
    variance = P[joint, joint]
    total = forgetting + spread + variance * rest
    gain = max(largest(u[:joint]), variance * largest(x)) / total
    if not (largest(along) * gain < LARGEST_STEP and total < LARGEST_STEP * LARGEST_STEP):
        return False
    for i in range(x.size):
        gain = (u[i] if i < joint else variance * x[i]) / total
        for t in range(along.size):
            weights[i, t] += gain * along[t]
    for i in range(joint):
        u[i] /= np.sqrt(total)
    left = variance * (1.0 - variance * rest / total / (x.size - joint))
    P[joint, joint] = left / forgetting if left <= WIND_UP * delta * forgetting else left
    _downdate(P[:joint, :joint], u[:joint], forgetting, delta)
    return True


@compiled
def move_on(weights, bias, P, transition, noise, delta):
    """After a row of a Kalman filter: w = transition w, P = transition^2 P + noise I; noise pauses as forgetting does."""
    for t in range(bias.size):
        bias[t] *= transition
        for i in range(len(weights)):
            weights[i, t] *= transition
    trace = 0.0
    for i in range(len(P)):
        trace += P[i, i]
    if not trace + noise * len(P) <= WIND_UP * delta * len(P):
        noise = 0.0
    for i in range(len(P)):
        for j in range(len(P)):
            P[i, j] *= transition * transition
        P[i, i] += noise


@compiled
def _product(P, z, u):
    """u = P z; gives z'u. By rows of P, so that the compiler can use vector instructions without changing the sums."""
    for j in range(z.size):
        u[j] = 0.0
    for i in range(z.size):
        factor = z[i]
        for j in range(z.size):
            u[j] += P[i, j] * factor
    total = 0.0
    for j in range(z.size):
        total += z[j] * u[j]
    return total


@compiled
def _downdate(P, u, forgetting, delta):
    """P = (P - u u') / forgetting, symmetric to the last bit because u_i u_j is."""
    trace = 0.0
    for i in range(u.size):
        trace += abs(P[i, i] - u[i] * u[i])  # rounding may leave less than 0, which must not grow either
    grow = 1.0 / forgetting
    if not trace * grow <= WIND_UP * delta * u.size:
        grow = 1.0
    for i in range(u.size):
        factor = u[i]
        for j in range(u.size):
            P[i, j] = (P[i, j] - factor * u[j]) * grow


@compiled
def _restart(P, delta):
    for i in range(len(P)):
        for j in range(len(P)):
            P[i, j] = delta if i == j else 0.0


@compiled
def carry_covariance(T, P, delta):
    """P = T P T' + delta (I - T T'); the constant input is not turned."""
    r, size = len(T), len(P)
    Tt, half, turned = np.empty((r, r)), np.zeros((r, size)), np.zeros((r, r))
    for i in range(r):
        for j in range(r):
            Tt[j, i] = T[i, j]
    for i in range(r):
        for k in range(r):
            factor = T[i, k]
            for j in range(size):
                half[i, j] += factor * P[k, j]
    for i in range(r):
        for k in range(r):
            factor = half[i, k] - delta * T[i, k]  # (T P - delta T) T', its lower triangle
            for j in range(i + 1):
                turned[i, j] += factor * Tt[k, j]
    for i in range(r):
        for j in range(i + 1):
            P[i, j] = turned[i, j] + (delta if i == j else 0.0)
            P[j, i] = P[i, j]
        for j in range(r, size):
            P[i, j] = half[i, j]
            P[j, i] = half[i, j]
    for i in range(r):
        if not 0.0 < P[i, i] < np.inf:
            _restart(P, delta)
            return

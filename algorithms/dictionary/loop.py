"""The loop of okdl and okdl_discriminative: code a row with the atoms so far, step, store the row, evict."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import fill_row, own_value
from algorithms.common.linalg import dot, missing, norm2, put, remove_row
from algorithms.dictionary import atoms as atom
from algorithms.dictionary import budget as bud
from algorithms.dictionary import steps
from algorithms.dictionary.coding import sparse_code

OUT_OF_RANGE = 1e100  # kappa(x, x) from which a row gives and teaches nothing; below 1 over it none becomes an atom
ANEW_EVERY = 200, 2  # rows, rows of a budget: after as many H and P are made again, without what rounding left in them
TOLERANCE = 1e-6  # of kappa(x, x): an LS error farther outside [0, kappa(x, x)] says that H is not D'D


@compiled
def rows_through(work, slots, X, Y, learn, out, code, rules):
    all_samples, all_weights, all_w, seen, _, all_H, all_P, counts = work
    room, size = all_samples.shape[1], all_H.shape[2]
    k, u, v = np.empty(room), np.empty(room), np.empty(room)
    c, Ha, beta, entry, scratch = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    active, M, L, error = np.empty(size, np.int64), np.empty((size, size)), np.empty((size, size)), np.empty(Y.shape[1])

    for n in range(len(X)):
        key, x, y, a, prediction = slots[n], X[n], Y[n], out.features[n], out.prediction[n]
        kxx = own_value(code, x)
        if missing(x) or not kxx < OUT_OF_RANGE:
            continue
        samples, weights, H, P, w = all_samples[key], all_weights[key], all_H[key], all_P[key], all_w[key]
        count, learns = counts[key, 0], learn[n] & (2 if rules.discriminative else 1) != 0
        if learns:
            seen[key] += 1
        learns = learns and not (rules.discriminative and missing(y))
        fill_row(code, samples, count, x, k)
        atom.against(weights, k, count, c)

        # Until there are as many atoms as asked for, each new row becomes one.
        if count < size and H[count, count] == 0.0:
            if learns and kxx > 1.0 / OUT_OF_RANGE and atom.repeat_of(samples, count, x) < 0:
                put(samples[count], x)
                for j in range(size):
                    weights[count, j] = 0.0
                atom.plant(weights, H, count + 1, count, count, c, kxx)
                counts[key, 0], counts[key, 1] = count + 1, count + 1
                out.admitted[n] = 1
            continue

        # (13), (26): code the row with the atoms that earlier rows taught.
        used = sparse_code(H, c, rules.l1, rules.l2, a, scratch, active, M, L)
        atom.image(H, a, active, used, Ha)
        ls_error = kxx - 2.0 * dot(a, c) + dot(a, Ha)
        if not -TOLERANCE * kxx <= ls_error <= (1.0 + TOLERANCE) * kxx:
            for j in range(size):
                a[j] = np.nan
            if learns:
                atom.inner_products(code, samples, weights, count, H)
            continue
        out.ls_error[n] = max(ls_error, 0.0)
        if rules.discriminative:
            _predict(w, a, active, used, y, prediction, error)
            if not missing(y):  # (9)
                out.loss[n] = 0.5 * norm2(error) + 0.5 * rules.nu * norm2(w.reshape(w.size))
        else:  # (2)
            out.loss[n] = 0.5 * out.ls_error[n] + _penalty(rules, a)
        if not learns:
            continue

        # (14) or (28), and x with its row of weights; a repeated x has one already.
        rho, row = steps.step_length(rules, seen[key], a), atom.repeat_of(samples, count, x)
        if not rules.discriminative:
            steps.reconstructive(rules, rho, H, weights, count, c, a, Ha, ls_error, entry, u, v)
        elif not steps.discriminative(
            rules, rho, H, weights, count, c, a, Ha, kxx, w, error, active, used, M, L, beta, entry, scratch, u, v
        ):
            continue
        new = row < 0
        if new:
            row = count
            put(samples[row], x)
            put(weights[row], entry)
            count += 1
            out.admitted[n] = 1
        else:
            for j in range(size):
                weights[row, j] += entry[j]

        # No atom answers, and none did to an earlier row close by: the shortest atom starts over here.
        silent = used == 0 and kxx > 1.0 / OUT_OF_RANGE
        if silent and atom.resembles_an_unused_sample(code, samples, weights, count - new, k, kxx):
            shortest = atom.weakest(H)
            atom.against(weights, k, count - new, c)
            atom.plant(weights, H, count, shortest, row, c, kxx)
            for t in range(y.size):
                w[shortest, t] = 0.0

        # Over budget one leaves.
        if new and rules.budget > 0 and count > rules.budget:
            leaver = _evict(rules, code, samples, weights, H, P, counts[key], count, k, kxx, u)
            remove_row(samples, leaver, count)
            remove_row(weights, leaver, count)
            count -= 1
            out.admitted[n], out.evicted[n] = leaver < count, leaver < count
        counts[key, 0], counts[key, 1] = count, count
        if rules.budget == count and seen[key] % max(ANEW_EVERY[0], ANEW_EVERY[1] * count) == 0:
            counts[key, 3] = _anew(code, samples, weights, H, P, count)


@compiled
def _predict(w, a, active, used, y, prediction, error):
    """prediction = w'a, error = y - prediction."""
    for t in range(prediction.size):
        prediction[t] = 0.0
        for i in range(used):
            prediction[t] += a[active[i]] * w[active[i], t]
        error[t] = y[t] - prediction[t]


@compiled
def _penalty(rules, a):
    total = 0.0
    for j in range(a.size):
        total += rules.l1 * abs(a[j]) + 0.5 * rules.l2 * a[j] * a[j]
    return total


@compiled
def _anew(code, samples, weights, H, P, count):
    """H, and P where there is room for it, from the samples; gives how many numbers P has."""
    lower = np.empty((count, count))
    sound = bud.factor(code, samples, count, lower)
    if sound:
        bud.trim(code, samples, weights, count, lower)
    atom.inner_products(code, samples, weights, count, H)
    if not sound or P.size == 0:
        return 0
    bud.inverse(lower, count, P)
    return count * (count + 1) // 2


@compiled
def _evict(rules, code, samples, weights, H, P, counts, count, k, kxx, u):
    """The sample to leave, of which H and what the others take over are taken care of."""
    rule, projects = rules.evict, rules.evict <= 1
    if projects:
        known = counts[3] > 0 and bud.extend(P, count - 1, k, kxx, u)
        if not known:
            lower = np.empty((count, count))
            projects = bud.factor(code, samples, count, lower)
            if projects:
                bud.inverse(lower, count, P)
            else:
                rule = bud.OLDEST
    leaver = bud.victim(rule, rules.grace, weights, P, count)
    if projects:
        bud.hand_over(code, samples, weights, H, P, leaver, count, u)
    else:
        bud.drop(code, samples, weights, H, leaver, count, u)
    counts[3] = count * (count - 1) // 2 if projects else 0
    return leaver

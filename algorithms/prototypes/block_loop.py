"""The rows of block_greedy: find the nearest block, gains within it and against the other blocks, swap, learn."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.gram_factor import whiten
from algorithms.common.kernels import fill_row, own_value, value
from algorithms.common.linalg import cholesky, missing, put, solve_lower, solve_lower_transposed
from algorithms.common.protocol import LEARN_EXTRACTOR
from algorithms.prototypes import blocks, inverse, regression, turning_map
from algorithms.prototypes.family import FAR, exchange, rebuild
from algorithms.prototypes.regression import FEATURES, LABELS, NONE, NYSTROM

RIDGE = turning_map.RIDGE


@compiled
def rows(work, slots, X, Y, learn, out, basis, code, ridge, min_gain, relative, reclusters, everywhere, form, eta, resets):
    """everywhere: the prototype that leaves may be of another block than the nearest."""
    (all_prototypes, all_arrival, all_labels, all_block, all_replaced, replaced_slots, replaced_arrivals, all_means,
     all_weights, all_P, estimates, clusterings, added, seen, counts, maps, orders, label_inverses, all_Q, all_E, all_loss,
     all_loser, all_spread) = work  # fmt: skip
    budget, most = all_prototypes.shape[1], all_replaced.shape[1]
    k, z, u, gain, v = np.empty(budget), np.empty(budget), np.zeros(budget), np.empty(budget), np.zeros(budget)
    turns, c, along = np.empty((2, budget)), np.zeros(budget), np.empty(Y.shape[1])
    members, near, no_Q = np.empty(budget, np.int64), np.empty(budget), np.empty((0, 0))
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if missing(x):
            continue
        kxx = own_value(code, x)
        if not kxx < FAR:
            continue
        prototypes, arrival, labels, weights = all_prototypes[key], all_arrival[key], all_labels[key], all_weights[key]
        block, means, Q, E, loss, loser = (
            all_block[key],
            all_means[key],
            all_Q[key],
            all_E[key],
            all_loss[key],
            all_loser[key],
        )
        U, order, label_Q, P, spread = maps[key], orders[key], label_inverses[key], all_P[key], all_spread[key]
        count = counts[key, 0]

        # The kernel row, the nearest block and its LS error, and the prediction.
        fill_row(code, prototypes, count, x, k)
        present = share_of(count - 1, budget, len(means)) + 1 if count else 0  # of the blocks, while the set fills
        if code[0] == 4.0:
            own = blocks.nearest_of_codes(k, block, count, spread[:present])
        else:
            own = blocks.nearest(means[:present], x)
        size = gather(block, count, own, k, members, near)
        residual = blocks.border(E, members, size, near, kxx, u)
        if not np.isfinite(residual):
            continue
        out.ls_error[n] = max(residual, 0.0)
        features = out.features[n]
        put(features, k[:count])
        features[count:] = 0.0
        if form == NYSTROM:
            turning_map.in_order(k, order, count, z)
            whiten(U, count, z)
        if form != NONE:
            out.loss[n] = regression.predict(form, weights, z, k, count, y, out.prediction[n])
        teaches = regression.labelled(form, learn[n], y)

        # Alg. 3: g1 within the nearest block, g2 with the least useful prototype of another one.
        slot, gained = -1, 0.0
        if learn[n] & LEARN_EXTRACTOR:
            seen[key] += 1
            if form != LABELS or teaches:
                if count < budget:
                    slot = count
                else:
                    least = inverse.ridge_of(kxx, ridge, size)
                    schur = max(blocks.border(Q, members, size, near, kxx + least, u), least)
                    slot, gained = best_within(Q, members, size, u, schur)
                    if everywhere:
                        other = cheapest_other(loss, own)
                        if other >= 0 and not np.log(schur) - loss[other] <= gained:
                            slot, gained = loser[other], np.log(schur) - loss[other]
                    least = min_gain * abs(estimates[key]) if relative else min_gain
                    if not (gained >= least and gained > 0.0):
                        slot = -1

        reach = regression.longest(form, code, prototypes, count) if slot >= 0 else 0.0
        if slot == count:
            out.admitted[n] = 1
            if form == FEATURES and count:
                put_coefficients(u, members, size, count, E, near, c)
                regression.carry_kernel_row(weights, P, eta, slot, count, c, gain)
            put(prototypes[slot], x)
            own = share_of(slot, budget, len(means))
            arrival[slot], block[slot] = seen[key], own
            size = gather(block, count, own, k, members, near)
            blocks.extend_block(E, members, size, slot, near, kxx, RIDGE, u)
            estimates[key] += np.log(blocks.extend_block(Q, members, size, slot, near, kxx, ridge, u))
            middle(code, prototypes, block, count + 1, own, means, spread)
            members[size] = slot
            loser[own], loss[own] = blocks.least_loss(Q, members, size + 1)
            if form == NYSTROM:
                turning_map.append(U, order, count, slot, kxx, z)
            if form == LABELS:
                put(labels[slot], y)
                inverse.append(label_Q, count, k, kxx, eta, c)
                regression.label_weights(label_Q, labels, count + 1, weights)
            k[count] = kxx
            count += 1
            counts[key, :4] = count
            added[key] += 1
        elif slot >= 0:
            out.admitted[n], out.evicted[n] = 1, 1
            estimates[key] += gained
            left, former = counts[key, 4], block[slot]
            if left < most:
                put(all_replaced[key, left], prototypes[slot])
                replaced_slots[key, left], replaced_arrivals[key, left] = slot, arrival[slot]
            if form == FEATURES:
                put_coefficients(u, members, size, count, E, near, c)
            if basis.moved.size:
                basis.moved[n] = 1
                size = blocks.members_of(block, count, former, members)
                hand_over(code, prototypes, members, size, slot, x, kxx, k, basis.transfer[n])
            first, kept = 0, 0.0
            if form in (NYSTROM, LABELS):
                put(v, z)
                first = exchange(
                    code, prototypes, count, slot, x, k, kxx, U, order, no_Q, ridge, label_Q, eta, turns, z
                )  # fmt: skip
                if form == NYSTROM:
                    turning_map.turn_vector(v, first, count, turns)
                    kept = turning_map.share(U, count, v[count - 1])
            put(prototypes[slot], x)
            k[slot] = kxx
            arrival[slot], block[slot] = seen[key], own
            for turn in range(1 if former == own else 2):
                changed = own if turn == 0 else former
                middle(code, prototypes, block, count, changed, means, spread)
                settle(code, prototypes, block, count, changed, ridge, Q, E, loss, loser, members)
            if form == LABELS:
                put(labels[slot], y)
                regression.label_weights(label_Q, labels, count, weights)
            else:
                regression.follow_swap(form, weights, P, eta, resets, slot, first, count, turns, kept, c, gain)
            if most and left == most:
                if U.size:
                    turning_map.arrange(arrival, count, order)
                rebuild(code, prototypes, count, U, order, no_Q, ridge, label_Q, eta)
                if form == LABELS:
                    regression.label_weights(label_Q, labels, count, weights)
                left = -1
            counts[key, 4:7] = left + 1 if most else 0
            added[key] += 1

        # Alg. 2: new blocks after as many newcomers as there are prototypes.
        if slot >= 0 and count == budget and added[key] >= budget and reclusters:
            blocks.cluster(code, prototypes, means, block, clusterings[key] == 0)
            estimates[key] = restore_blocks(code, prototypes, block, means, ridge, Q, E, loss, loser, spread, members)
            clusterings[key] += 1
            added[key] = 0

        # Regression learns by the set as it is now.
        if slot >= 0:
            regression.outgrow(form, code, prototypes, count, reach, weights, P, eta)
        if teaches and form != LABELS:
            regression.learn(form, code, prototypes, weights, P, z, k, count, y, eta, v, c, u, gain, along)


@compiled
def gather(block, count, own, k, members, near):
    """The slots of a block in order and their kernel values of the row k; gives how many."""
    size = blocks.members_of(block, count, own, members)
    for a in range(size):
        near[a] = k[members[a]]
    return size


@compiled
def best_within(Q, members, size, u, schur):
    """The member with the replacement that gains most, and the gain; the first of equals, (-1, -inf) of none."""
    slot, ratio = -1, 0.0
    for a in range(size):
        i = members[a]
        own = Q[i, a] * schur + u[a] * u[a]
        if own > ratio:
            slot, ratio = i, own
    return slot, np.log(ratio) if np.isfinite(ratio) and slot >= 0 else -np.inf


@compiled
def cheapest_other(loss, own):
    """The block other than `own` that loses least by a removal; -1 of none."""
    other, least = -1, np.inf
    for m in range(len(loss)):
        if m != own and loss[m] < least:
            other, least = m, loss[m]
    return other


@compiled
def put_coefficients(u, members, size, count, E, near, c):
    """c'k_S is about the kernel of x: the projection of phi(x) on the nearest block, 0 for other prototypes."""
    c[:count] = 0.0
    blocks.border(E, members, size, near, 0.0, u)
    for a in range(size):
        c[members[a]] = u[a]


@compiled
def hand_over(code, prototypes, members, size, slot, x, kxx, k, T):
    """weights' = T weights keeps f = sum_i w_i kappa(z_i, .): what `slot` leaves goes to its block and to x."""
    G, a = np.empty((size, size)), np.empty(size)
    heirs, at = np.empty(size, np.int64), 0
    for b in range(size):
        if members[b] != slot:
            heirs[at] = members[b]
            at += 1
    for i in range(at):
        for j in range(i + 1):
            G[i, j] = value(code, prototypes[heirs[i]], prototypes[heirs[j]])
        G[at, i] = k[heirs[i]]
        a[i] = value(code, prototypes[heirs[i]], prototypes[slot])
    heirs[at] = slot
    G[at, at] = kxx
    a[at] = k[slot]
    L = np.zeros((size, size))
    cholesky(G, size, RIDGE, 0.0, 1e-12, L)
    solve_lower(L, size, a)
    solve_lower_transposed(L, size, a)
    for i in range(len(T)):
        for j in range(len(T)):
            T[i, j] = 1.0 if i == j and i != slot else 0.0
    for i in range(size):
        T[heirs[i], slot] = a[i] if np.isfinite(a[i]) else 0.0


@compiled
def settle(code, prototypes, block, count, own, ridge, Q, E, loss, loser, members):
    """What follows from the members of a block; gives log det (K + ridge I) of it."""
    size = blocks.members_of(block, count, own, members)
    K = np.empty((size, size))
    for a in range(size):
        x = prototypes[members[a]]
        for b in range(a):
            K[a, b] = value(code, prototypes[members[b]], x)
        K[a, a] = own_value(code, x)
    blocks.invert_block(K, members, size, RIDGE, E)
    total = blocks.invert_block(K, members, size, ridge, Q)
    loser[own], loss[own] = blocks.least_loss(Q, members, size)
    return total


@compiled
def share_of(slot, budget, several):
    """The block of a slot before there is a clustering: equal shares."""
    return min(slot * several // budget, several - 1)


@compiled
def middle(code, prototypes, block, count, own, means, spread):
    """Where the members of a block are."""
    if code[0] == 4.0:
        spread[own] = blocks.spread_of(code, prototypes, block, count, own)
    else:
        blocks.mean_of(prototypes[:count], block, own, means[own])


@compiled
def restore_blocks(code, prototypes, block, means, ridge, Q, E, loss, loser, spread, members):
    """What follows from the prototypes and their blocks; gives the sum of log det (K_B + ridge I)."""
    count, total = len(prototypes), 0.0
    for own in range(len(loss)):
        middle(code, prototypes, block, count, own, means, spread)
        total += settle(code, prototypes, block, count, own, ridge, Q, E, loss, loser, members)
    return total

"""Brokers killed, restarted in turn, and too few of them."""

import time
from functools import partial

from tests.brokers.bed import until
from tests.faults.trial import Trial


def leader(trial: Trial) -> None:
    """Three hard kills of a node that leads a partition of the input; the workers live through it."""
    bed, cluster = trial.make_bed(), trial.cluster
    trial.both()
    trial.pour()
    for turn in range(3):
        trial.progress()
        node = cluster.leader(bed.input, turn)
        pid = cluster.kill(node)
        until(lambda turn=turn, node=node: cluster.leader(bed.input, turn) != node, "another leader", 90)  # type: ignore[misc]
        trial.prove(f"node {node} (pid {pid}) killed, {bed.input}[{turn}] now led by {cluster.leader(bed.input, turn)}")
        trial.progress()
        cluster.restart(node)
        cluster.in_sync()


def controller(trial: Trial) -> None:
    """Three hard kills of the node that leads the controllers' quorum."""
    cluster = trial.cluster
    trial.make_bed()
    trial.both()
    trial.pour()
    for _ in range(3):
        trial.progress()
        epoch, node = cluster.controller()
        cluster.kill(node)
        until(partial(elected, trial, epoch), "another controller", 90)
        trial.prove(f"controller {node} killed, now {cluster.controller()[1]}")
        trial.progress()
        cluster.restart(node)
        cluster.in_sync()


def elected(trial: Trial, before: int) -> bool:
    epoch, node = trial.cluster.controller()
    return epoch > before and node in trial.cluster.nodes


def rolling(trial: Trial) -> None:
    """All three nodes stopped and started in turn, as an upgrade does."""
    cluster = trial.cluster
    trial.make_bed()
    trial.both()
    trial.pour()
    for node in cluster.nodes:
        trial.progress()
        cluster.stop(node)
        until(lambda node=node: node not in cluster.alive(), "the node gone from the metadata", 90)  # type: ignore[misc]
        trial.progress()
        cluster.restart(node)
        cluster.in_sync()
    trial.prove("3 nodes stopped and started in turn")


def two_down(trial: Trial) -> None:
    """Two of three nodes dead for 20 s: nothing can be written, nothing is lost, and it goes on by itself."""
    bed, cluster = trial.make_bed(), trial.cluster
    trial.both()
    trial.pour()
    trial.progress()
    dead = [node for node in cluster.nodes if node != cluster.leader(bed.input, 0)]
    cluster.each(dead, cluster.kill)
    time.sleep(20)
    assert all(cluster.nodes[node].process is None for node in dead)
    cluster.each(dead, cluster.restart)
    cluster.in_sync()
    trial.progress()
    trial.prove(f"nodes {dead} killed and back after 20 s")

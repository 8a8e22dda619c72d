"""Brokers killed, restarted in turn, and too few of them."""

import signal
import time
from functools import partial

from tests.brokers.kafka_job import until
from tests.faults.case import Case


def leader(case: Case) -> None:
    """Three hard kills of a node that leads a partition of the input; the workers live through it."""
    job, cluster = case.make_job(), case.cluster
    case.run_two_workers()
    case.start_load()
    for turn in range(3):
        case.wait_for_commits()
        node = cluster.leader(job.input, turn)
        pid = cluster.kill(node)
        until(lambda turn=turn, node=node: cluster.leader(job.input, turn) != node, "another leader", 90)  # type: ignore[misc]
        case.prove(f"node {node} (pid {pid}) killed, {job.input}[{turn}] now led by {cluster.leader(job.input, turn)}")
        case.wait_for_commits()
        cluster.restart(node)
        cluster.in_sync()


def asleep(case: Case) -> None:
    """A node that leads a partition of the input is frozen for 40 s, and wakes as if nothing had been."""
    job, cluster = case.make_job(), case.cluster
    case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    node = cluster.leader(job.input, 0)
    process = cluster.nodes[node].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(40)
        led = cluster.leader(job.input, 0)
        assert led != node
    finally:
        process.send_signal(signal.SIGCONT)
    cluster.in_sync()
    case.prove(f"node {node} frozen for 40 s, {job.input}[0] led by {led} meanwhile")


def controller(case: Case) -> None:
    """Three hard kills of the node that leads the controllers' quorum."""
    cluster = case.cluster
    case.make_job()
    case.run_two_workers()
    case.start_load()
    for _ in range(3):
        case.wait_for_commits()
        epoch, node = cluster.controller()
        cluster.kill(node)
        until(partial(elected, case, epoch), "another controller", 90)
        case.prove(f"controller {node} killed, now {cluster.controller()[1]}")
        case.wait_for_commits()
        cluster.restart(node)
        cluster.in_sync()


def elected(case: Case, before: int) -> bool:
    epoch, node = case.cluster.controller()
    return epoch > before and node in case.cluster.nodes


def rolling(case: Case) -> None:
    """All three nodes stopped and started in turn, as an upgrade does."""
    cluster = case.cluster
    case.make_job()
    case.run_two_workers()
    case.start_load()
    for node in cluster.nodes:
        case.wait_for_commits()
        cluster.stop(node)
        until(lambda node=node: node not in cluster.alive(), "the node gone from the metadata", 90)  # type: ignore[misc]
        case.wait_for_commits()
        cluster.restart(node)
        cluster.in_sync()
    case.prove("3 nodes stopped and started in turn")


def two_down(case: Case) -> None:
    """Two of three nodes dead for 20 s: nothing can be written, nothing is lost, and it goes on by itself."""
    job, cluster = case.make_job(), case.cluster
    case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    dead = [node for node in cluster.nodes if node != cluster.leader(job.input, 0)]
    cluster.each(dead, cluster.kill)
    time.sleep(20)
    assert all(cluster.nodes[node].process is None for node in dead)
    cluster.each(dead, cluster.restart)
    cluster.in_sync()
    case.wait_for_commits()
    case.prove(f"nodes {dead} killed and back after 20 s")

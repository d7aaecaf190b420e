"""Reasons to stop, hangs, and how nodes find one another."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from trainer.errors import Hang
from trainer.launch import Nodes, command, nodes_from, settings_from
from trainer.stop import EXPIRATION, StopRequest, Watchdog


def test_nothing_to_stop_for() -> None:
    assert StopRequest({}, lambda: 1e12).reason is None


def test_the_reservation_ends_forty_minutes_early() -> None:
    clock = [10_000.0]
    stop = StopRequest({EXPIRATION: "12500"}, lambda: clock[0])
    assert stop.reason is None
    clock[0] = 12500.0 - 40 * 60
    assert stop.reason is not None
    assert "expires" in stop.reason


def test_sigterm_is_a_wish() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        stop = StopRequest({}, time.time)
        stop.watch_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.reason == "SIGTERM"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_hang_ends_the_process_with_stacks(capfd: pytest.CaptureFixture[str]) -> None:
    left: list[int] = []
    with Watchdog(0.05, leave=left.append):
        for _ in range(100):
            time.sleep(0.02)
            if left:
                break
    assert left == [Hang.exit_status]
    shown = capfd.readouterr().err
    assert "hang: no step within 0.05 s" in shown
    assert "test_a_hang_ends_the_process_with_stacks" in shown


def test_steps_that_come_are_no_hang() -> None:
    left: list[int] = []
    with Watchdog(0.4, leave=left.append) as watchdog:
        for _ in range(12):
            time.sleep(0.05)
            watchdog.step_came()
    with Watchdog(0.0, leave=left.append):
        time.sleep(0.05)
    assert left == []


def test_every_node_sorts_the_hosts_alike() -> None:
    hosts = [f"algo-{number}" for number in (10, 2, 1, 11)]
    ranks = {}
    for host in hosts:
        config = {"current_host": host, "hosts": hosts, "network_interface_name": "eth0"}
        nodes = nodes_from(config)
        assert (nodes.num_nodes, nodes.address, nodes.interface) == (4, "algo-1", "eth0")
        ranks[host] = nodes.node_rank
    assert ranks == {"algo-1": 0, "algo-2": 1, "algo-10": 2, "algo-11": 3}


def test_one_node_stands_alone_and_many_meet_at_the_first() -> None:
    alone = command(Nodes(), 8, ["--probe", "5"])
    assert "--standalone" in alone
    assert alone[-5:] == ["--nproc-per-node=8", "-m", "trainer", "--probe", "5"]
    many = command(Nodes(num_nodes=4, node_rank=2, address="algo-1"), 8, [])
    assert {"--nnodes=4", "--node-rank=2", "--master-addr=algo-1"} <= set(many)
    assert "--standalone" not in many


def test_hyperparameters_give_way_to_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "hyperparameters.json"
    path.write_text('{"probe": "5", "seed": "1", "sagemaker_program": "x.py"}')
    found = settings_from(json.loads(path.read_text()), ["--seed=2"])
    assert found == ["--probe", "5", "--seed=2"]

"""A plan for other hardware on this machine: the same training, with every change named."""

from dataclasses import replace

import pytest

from app.jobs.local_fit import fit
from app.jobs.local_machine import LocalMachine, read_machine
from app.jobs.local_preflight import local_checks
from app.jobs.orders import Ordered

CPU = LocalMachine(
    num_gpus=0, compute_capability=None, num_cpus=4, free_memory_bytes=64 * 1024**3, has_torch=True
)
H200 = LocalMachine(
    num_gpus=2,
    compute_capability=(9, 0),
    num_cpus=16,
    free_memory_bytes=128 * 1024**3,
    has_torch=True,
)


def with_settings(made: Ordered, **settings: str) -> Ordered:
    told = {**made.order.hyperparameters, **settings}
    return replace(made, order=replace(made.order, hyperparameters=told))


def tokens_per_step(settings: dict[str, str], processes: int) -> int:
    names = ("micro_batch", "seq_len", "accumulation_steps")
    one, two, three = (int(settings[name]) for name in names)
    return one * two * three * processes


@pytest.mark.parametrize("processes", [1, 2, 4, 8])
def test_a_step_trains_on_the_same_tokens(made: Ordered, processes: int) -> None:
    fitted = fit(made.order, CPU, max_processes=processes)
    assert fitted.num_processes == processes
    assert tokens_per_step(dict(fitted.settings), processes) == tokens_per_step(
        dict(made.order.hyperparameters), 8
    )


def test_what_does_not_divide_is_said(made: Ordered) -> None:
    fitted = fit(made.order, CPU, max_processes=3)
    assert any("3/8 of the tokens" in change for change in fitted.changes)


@pytest.mark.parametrize(
    ("shards", "replicas", "expected"),
    [("8", "1", ("2", "1")), ("1", "8", ("1", "2")), ("4", "2", ("2", "1"))],
)
def test_shards_and_replicas_are_those_of_the_processes(
    made: Ordered, shards: str, replicas: str, expected: tuple[str, str]
) -> None:
    order = with_settings(made, shard_degree=shards, replica_degree=replicas).order
    settings = fit(order, CPU, max_processes=2).settings
    assert (settings["shard_degree"], settings["replica_degree"]) == expected


@pytest.mark.parametrize(
    ("machine", "precision", "expected"),
    [
        (CPU, "mxfp8", "fp32"),
        (CPU, "bf16", "fp32"),
        (H200, "mxfp8", "bf16"),
        (H200, "nvfp4", "bf16"),
        (H200, "fp8", "fp8"),
        (H200, "bf16", "bf16"),
    ],
)
def test_precision_is_what_the_machine_can_do(
    made: Ordered, machine: LocalMachine, precision: str, expected: str
) -> None:
    order = with_settings(made, precision=precision).order
    fitted = fit(order, machine, max_processes=0)
    assert fitted.settings["precision"] == expected
    assert any(precision in change for change in fitted.changes) == (precision != expected)


def test_the_number_of_steps_is_that_of_the_tokens(made: Ordered) -> None:
    fitted = fit(made.order, CPU, max_processes=2)
    assert fitted.num_steps == made.predicted["num_steps"]
    probed = fit(with_settings(made, probe="20").order, CPU, max_processes=2)
    assert probed.num_steps == 22


def verdicts(made: Ordered, machine: LocalMachine, tmp_path: object) -> dict[str, str]:
    fitted = fit(made.order, machine, max_processes=0)
    checks = local_checks(made.order, machine, fitted, tmp_path)  # type: ignore[arg-type]
    assert all(check.remedy for check in checks if check.verdict != "pass")
    return {check.name: check.verdict for check in checks}


def test_preflight_of_a_machine_that_can(made: Ordered, tmp_path: object) -> None:
    assert verdicts(made, CPU, tmp_path)["memory"] == "pass"


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("memory", replace(CPU, free_memory_bytes=8 * 1024**3)),
        ("training program", replace(CPU, has_torch=False)),
    ],
)
def test_preflight_refuses_what_cannot_run(
    made: Ordered, name: str, machine: LocalMachine, tmp_path: object
) -> None:
    assert verdicts(made, machine, tmp_path)[name] == "fail"


def test_preflight_looks_for_the_data(made: Ordered, tmp_path: object) -> None:
    there = replace(made, order=replace(made.order, data_uri=str(tmp_path)))
    gone = replace(made, order=replace(made.order, data_uri=f"{tmp_path}/gone"))
    assert verdicts(there, CPU, tmp_path)["data"] == "pass"
    assert verdicts(gone, CPU, tmp_path)["data"] == "fail"


def test_this_machine_can_be_read() -> None:
    machine = read_machine()
    assert machine.free_memory_bytes > 2**28
    assert machine.has_torch

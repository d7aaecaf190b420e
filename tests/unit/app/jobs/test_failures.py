"""What the end of a log says."""

import pytest

from app.jobs.failures import diagnose, exit_status_in

TORCHRUN = """
ConfigError: micro_batch must be at least 1
E1204 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: 2) local_rank: 0
  exitcode  : {status} (pid: 4161)
"""


@pytest.mark.parametrize("status", [2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_each_status_of_the_trainer_has_a_remedy(status: int) -> None:
    log = TORCHRUN.format(status=status).splitlines()
    assert exit_status_in("\n".join(log)) == status
    found = diagnose("AlgorithmError", log)
    assert found.remedy
    assert found.is_out_of_memory == (status == 9)
    assert "micro_batch must be at least 1" in found.reason


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
        "RuntimeError: CUDA error: out of memory",
        "OutOfMemory: the GPU's memory is not enough",
    ],
)
def test_out_of_memory_is_recognised(line: str) -> None:
    found = diagnose(None, ["step 1", line, "more"])
    assert found.is_out_of_memory
    assert "micro batch" in found.remedy


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("InsufficientCapacityError: none", "training plan"),
        ("AccessDenied when calling GetObject", "permission"),
        ("NoSuchBucket", "S3"),
        ("ClientError: something else", "resumed"),
    ],
)
def test_reasons_of_aws_have_remedies(reason: str, word: str) -> None:
    found = diagnose(reason, ())
    assert word in found.remedy
    assert not found.is_out_of_memory
    assert reason in found.reason


def test_memory_of_the_host_is_not_the_gpus() -> None:
    assert not diagnose(None, ["  exitcode  : -9 (pid: 1)"]).is_out_of_memory

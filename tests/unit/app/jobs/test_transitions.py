"""Which status may follow which."""

import pytest

from app.jobs.training_service import JobStatus
from app.jobs.transitions import FINAL, FOLLOWING, UNFINISHED, may_follow


def test_every_status_has_its_followers() -> None:
    assert set(FOLLOWING) == set(JobStatus)
    assert set(UNFINISHED) | FINAL == set(JobStatus)


@pytest.mark.parametrize("status", sorted(FINAL))
def test_nothing_follows_the_end(status: JobStatus) -> None:
    assert not any(may_follow(status, then) for then in JobStatus)


@pytest.mark.parametrize("status", UNFINISHED)
def test_every_job_can_end(status: JobStatus) -> None:
    reached, frontier = set(), {status}
    while frontier:
        reached |= frontier
        frontier = {then for each in frontier for then in FOLLOWING[each]} - reached
    assert reached & FINAL


def test_a_job_never_waits_to_be_submitted_again() -> None:
    assert not any(may_follow(status, JobStatus.QUEUED) for status in JobStatus)

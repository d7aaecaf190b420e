"""The worker: what it makes of everything that a backend may say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from acted_service import COMPLETED, RUNNING, START, ActedService

from app.jobs.store import ask_to_stop
from app.jobs.training_service import (
    Check,
    JobStatus,
    Progress,
    Refused,
    StatusTransition,
    Throttled,
    Unavailable,
)
from app.jobs.worker import Worker
from app.notices.outcome import Outcome, Sent
from app.notices.tables import Notice
from app.tables import StoredResult

PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/mine"
AWS = {
    "backend": "sagemaker",
    "role_arn": "arn:aws:iam::123456789012:role/training",
    "output_s3_uri": "s3://bucket/out",
    "checkpoint_s3_uri": "s3://bucket/ckpt",
    "training_plan_arn": PLAN,
}


@dataclass
class Told:
    """A sender that remembers."""

    messages: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def send(self, kind: str, payload: Mapping[str, Any]) -> Outcome:
        self.messages.append((kind, payload))
        return Sent()


def worker_of(jobs: Any, service: ActedService) -> Worker:
    return Worker(jobs.database, {service.name: service}, Told())


def work(jobs: Any, worker: Worker, rounds: int = 8) -> None:
    for _ in range(rounds):
        jobs.hurry()
        worker.round()


def kinds(jobs: Any, identity: str) -> list[str]:
    return [kind for kind, _ in jobs.events(identity) if kind != "backend"]


def notices(jobs: Any) -> list[str]:
    with jobs.database.reading() as session:
        return [each.kind for each in session.query(Notice).order_by(Notice.created_at)]


def test_a_job_goes_from_queued_to_completed(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService()
    work(jobs, worker_of(jobs, service))
    job = jobs.get(identity)
    assert job.status == "completed"
    assert service.created == [job.name]
    assert job.billable_s == 3600
    assert job.due_at is None
    assert job.lease_owner is None
    assert kinds(jobs, identity) == ["queued", "submitting", "submitted", "running", "completed"]
    assert notices(jobs) == ["submitted", "running", "completed"]


def test_missed_polls_lose_no_transition(jobs: Any) -> None:
    history = tuple(
        StatusTransition(status=name, message=name.lower(), started_at=START.replace(minute=n))
        for n, name in enumerate(("Starting", "Downloading", "Training", "Uploading", "Completed"))
    )
    identity = jobs.add()
    service = ActedService(seen=[replace(COMPLETED, transitions=history)])
    work(jobs, worker_of(jobs, service))
    seen = [detail["status"] for kind, detail in jobs.events(identity) if kind == "backend"]
    assert seen == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def test_preflight_that_fails_submits_nothing(jobs: Any) -> None:
    check = Check(name="quota", verdict="fail", detail="it is 0", remedy="ask for more")
    identity, service = jobs.add(), ActedService(checks=(check,))
    work(jobs, worker_of(jobs, service))
    job = jobs.get(identity)
    assert (job.status, job.remedy) == ("failed", "ask for more")
    assert "quota: it is 0" in (job.failure_reason or "")
    assert "submit" not in service.calls
    assert json.loads(job.preflight or "[]")[0]["verdict"] == "fail"


def test_a_refusal_ends_the_job_with_its_words(jobs: Any) -> None:
    identity = jobs.add()
    service = ActedService(trouble=[None, Refused("ResourceLimitExceeded", "quota is 0")])
    work(jobs, worker_of(jobs, service))
    job = jobs.get(identity)
    assert job.status == "failed"
    assert "ResourceLimitExceeded: quota is 0" in (job.failure_reason or "")


@pytest.mark.parametrize("error", [Throttled("slow down"), Unavailable("no answer")])
def test_trouble_waits_longer_each_time_and_loses_nothing(jobs: Any, error: Exception) -> None:
    identity = jobs.add()
    service = ActedService(trouble=[None, *[error] * 4])  # type: ignore[list-item]
    worker = worker_of(jobs, service)
    waits = []
    for _ in range(4):
        jobs.hurry()
        worker.round()
        job = jobs.get(identity)
        assert job.status == "submitting"
        assert job.trouble
        waits.append(job.due_at)
    work(jobs, worker)
    job = jobs.get(identity)
    assert job.status == "completed"
    assert len(service.created) == 1
    assert job.trouble is None


def test_a_job_that_is_gone_is_failed_after_three_looks(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService(seen=[RUNNING])
    worker = worker_of(jobs, service)
    work(jobs, worker, 2)
    service._place.clear()
    jobs.hurry()
    worker.round()
    assert jobs.get(identity).status == "running"
    work(jobs, worker, 3)
    assert jobs.get(identity).status == "failed"
    assert "no longer knows" in (jobs.get(identity).failure_reason or "")


def test_a_stop_before_submission_submits_nothing(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService()
    with jobs.database.writing() as session:
        ask_to_stop(session, identity, START)
    work(jobs, worker_of(jobs, service))
    assert jobs.get(identity).status == "stopped"
    assert service.calls == []


def test_a_running_job_is_stopped_once(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService(seen=[RUNNING])
    worker = worker_of(jobs, service)
    work(jobs, worker, 2)
    with jobs.database.writing() as session:
        ask_to_stop(session, identity, START)
    work(jobs, worker, 4)
    job = jobs.get(identity)
    assert job.status == "stopped"
    assert job.failure_reason == "stopped as asked"
    assert service.stopped == [job.name]
    assert kinds(jobs, identity)[-3:] == ["stop_requested", "stopping", "stopped"]


def test_the_end_is_final(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService(seen=[COMPLETED, RUNNING])
    work(jobs, worker_of(jobs, service))
    assert jobs.get(identity).status == "completed"
    assert service.calls.count("observe") == 1


@pytest.mark.parametrize("allowed", [False, True])
def test_a_dropped_training_plan_is_an_alarm(jobs: Any, settings: Any, allowed: bool) -> None:
    jobs.settings = replace(settings, allow_on_demand=allowed)
    identity = jobs.add(**AWS)
    service = ActedService(name="sagemaker", seen=[replace(RUNNING, training_plan_arn=None)])
    work(jobs, worker_of(jobs, service), 4)
    assert "training_plan_dropped" in notices(jobs)
    assert jobs.get(identity).status == ("running" if allowed else "stopped")
    assert bool(service.stopped) is not allowed


def test_a_kept_training_plan_is_none(jobs: Any) -> None:
    jobs.add(**AWS)
    service = ActedService(name="sagemaker", seen=[replace(RUNNING, training_plan_arn=PLAN)])
    work(jobs, worker_of(jobs, service), 3)
    assert "training_plan_dropped" not in notices(jobs)


def test_slower_and_fuller_than_predicted_is_told_once(jobs: Any) -> None:
    identity = jobs.add(**AWS)
    predicted = json.loads(jobs.get(identity).predicted)
    bad = Progress(
        step=50,
        num_steps=100,
        tokens_per_s_per_gpu=predicted["interval_tokens_per_s"][0] / 8 * 0.9,
        peak_reserved_bytes=predicted["interval_bytes"][1] + 1,
    )
    good = replace(
        bad,
        tokens_per_s_per_gpu=predicted["tokens_per_s"] / 8,
        peak_reserved_bytes=predicted["peak_bytes"],
    )
    seen = replace(RUNNING, training_plan_arn=PLAN)
    service = ActedService(name="sagemaker", seen=[replace(seen, progress=good)])
    worker = worker_of(jobs, service)
    work(jobs, worker, 3)
    assert notices(jobs) == ["submitted", "running"]
    service.seen = [replace(seen, progress=bad)]
    service._place = dict.fromkeys(service._place, 0)
    work(jobs, worker, 3)
    assert sorted(notices(jobs)[2:]) == ["fuller_than_predicted", "slower_than_predicted"]


def test_out_of_memory_in_the_log_is_stored_as_evidence(jobs: Any) -> None:
    identity = jobs.add(**AWS)
    failed = replace(
        COMPLETED,
        status=JobStatus.FAILED,
        failure_reason="AlgorithmError",
        training_plan_arn=PLAN,
    )
    log = ("step 1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    service = ActedService(name="sagemaker", seen=[failed], log=log)
    learnt: list[bool] = []
    worker = Worker(
        jobs.database, {"sagemaker": service}, Told(), learn=lambda: learnt.append(True)
    )
    work(jobs, worker, 3)
    job = jobs.get(identity)
    with jobs.database.reading() as session:
        row = session.get_one(StoredResult, job.result_id)
        assert row.oom
        assert row.in_scope, row.why_not
        assert row.micro_batch_per_gpu == json.loads(job.predicted)["settings"]["micro_batch"]
        assert row.source_url == f"shardwise:jobs/{identity}"
    assert learnt == [True]


def test_a_simulation_is_no_measurement(jobs: Any) -> None:
    identity = jobs.add()
    service = ActedService(document={"kind": "simulated", "row": {"id": "x", "source_url": "y"}})
    work(jobs, worker_of(jobs, service))
    assert jobs.get(identity).status == "completed"
    assert jobs.get(identity).result_id is None


def test_two_workers_share_and_double_nothing(jobs: Any) -> None:
    identities = [jobs.add() for _ in range(6)]
    service = ActedService()
    workers = [worker_of(jobs, service) for _ in range(3)]
    for _ in range(20):
        jobs.hurry()
        for worker in workers:
            worker.round()
    assert sorted(service.created) == sorted(jobs.get(each).name for each in identities)
    assert {jobs.get(each).status for each in identities} == {"completed"}


def test_a_job_of_another_machine_is_left_alone(jobs: Any) -> None:
    identity, service = jobs.add(), ActedService()
    with jobs.database.writing() as session:
        from app.jobs.tables import Job  # noqa: PLC0415 - only here

        session.get_one(Job, identity).host = "elsewhere"
    work(jobs, worker_of(jobs, service), 3)
    assert jobs.get(identity).status == "queued"

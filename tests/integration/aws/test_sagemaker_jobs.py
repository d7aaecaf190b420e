"""Jobs on SageMaker over HTTP: the SDK, a stand-in for AWS, and the messages that come of it."""

import csv
import json
import time
from importlib.resources import files
from typing import Any

import pytest
from stand_in import Account, Slack

from app.aws.fake.demo import BUCKET, REGION
from app.aws.fake.server import Trouble
from app.aws.service_model import answer_findings, findings

FINAL = ("completed", "failed", "stopped")


def is_final(job: dict[str, Any]) -> bool:
    return job["status"] in FINAL


def test_from_answer_to_finished_job_and_slack(account: Account, slack: Slack) -> None:
    asked = {
        "recommendation_id": account.recommend(),
        "backend": "sagemaker",
        "training_plan_arn": account.plan.arn,
    }
    preview = account.client.post("/jobs/preview", json=asked).json()
    assert (preview["verdict"], preview["name"][:5]) == ("pass", "fsdp-")
    assert set(preview["files"]) >= {"torchrun.sh", "request.json"}
    sent = json.loads(preview["files"]["request.json"])
    assert findings("CreateTrainingJob", sent) == ()

    job = account.start(kind="train")
    running = account.until(job["id"], lambda each: each["status"] == "running")
    assert running["training_plan_arn"] == account.plan.arn
    plans = account.client.get("/plans").json()["plans"]
    assert [(each["name"], each["num_free"]) for each in plans] == [("night", 1)]
    done = account.until(job["id"], is_final)
    assert (done["status"], account.fake.calls.count("CreateTrainingJob")) == ("completed", 1)
    kinds = account.told()
    assert kinds[:2] == ["submitted", "running"]
    assert kinds[-1] == "completed"
    # Every state that AWS went through is an event, though most were never seen by a poll.
    stream = account.client.get(f"/jobs/{job['id']}/events").text
    assert all(name in stream for name in ("Starting", "Downloading", "Training", "Uploading"))
    while len(slack.messages) < len(kinds):
        account.service.worker.round()
        time.sleep(0.2)
    assert job["name"] in slack.messages[0]["text"]
    # The code that AWS runs is in the bucket, whole.
    assert account.service.aws
    keys = account.service.aws.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    assert any(each["Key"].endswith("/trainer/train.py") for each in keys)


def test_what_the_job_measured_becomes_a_result(account: Account) -> None:
    job = account.start()
    with (files("advisor") / "data/benchmarks.csv").open() as published:
        # What a run here would have written; the figures are of a published one.
        row = next(each for each in csv.DictReader(published) if each["peak_mem_gib"])
    document = {"kind": "measured", "outcome": "completed", "num_steps_measured": 20, "row": row}
    assert account.service.aws
    key = f"jobs/checkpoints/{job['name']}/report-{job['name']}/result.json"
    body = json.dumps(document).encode()
    account.service.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
    done = account.until(job["id"], is_final)
    assert done["status"] == "completed"
    results = account.client.get("/results", params={"limit": 1000}).json()["results"]
    (found,) = (each for each in results if each["id"] == done["result_id"])
    assert found["source_url"] == f"shardwise:jobs/{job['id']}"
    assert found["peak_mem_gib"] == float(row["peak_mem_gib"])
    assert "backend sagemaker" in found["notes"]


def test_a_stop_lets_it_save(account: Account) -> None:
    job = account.start(kind="train")
    account.until(job["id"], lambda each: each["status"] == "running")
    assert account.client.post(f"/jobs/{job['id']}/stop").status_code == 202
    done = account.until(job["id"], is_final)
    assert done["status"] == "stopped"
    assert account.fake.calls.count("StopTrainingJob") == 1
    resumed = account.client.post(f"/jobs/{job['id']}/resume").json()
    before, after = (account.job(each["id"])["order"] for each in (job, resumed))
    assert after["checkpoint_uri"] == before["checkpoint_uri"]


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(operation="CreateTrainingJob", is_done=True),
        Trouble(operation="CreateTrainingJob", code="ThrottlingException", status=400),
        Trouble(operation="DescribeTrainingJob", code="ThrottlingException", status=400),
        Trouble(operation="DescribeTrainingJob"),
    ],
    ids=lambda each: f"{each.operation}-{each.code}-{each.is_done}",
)
def test_bad_days_of_aws_lose_and_double_nothing(account: Account, trouble: Trouble) -> None:
    account.fake.trouble.append(trouble)
    job = account.start()
    assert account.until(job["id"], is_final)["status"] == "completed"
    assert len(account.fake.jobs.jobs) == 1
    assert account.fake.trouble == []


def test_a_dropped_reservation_is_an_alarm_and_stops_the_job(account: Account) -> None:
    account.fake.jobs.drops_plan = True
    job = account.start(kind="train")
    done = account.until(job["id"], is_final)
    assert done["status"] == "stopped"
    assert "training_plan_dropped" in account.told()


def test_a_failure_has_its_reason_and_remedy(account: Account) -> None:
    account.fake.jobs.failure = (
        "AlgorithmError: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )
    job = account.start(kind="train")
    done = account.until(job["id"], is_final)
    assert done["status"] == "failed"
    assert "out of memory" in done["failure_reason"]
    assert done["remedy"]


@pytest.mark.parametrize(
    ("more", "check"),
    [
        ({"training_plan_arn": "none-of-that-name"}, "training plan"),
        ({"role_arn": "arn:aws:iam::123456789012:role/unknown"}, "role"),
        ({"output_s3_uri": "s3://no-such-bucket-here/out"}, "bucket no-such-bucket-here"),
    ],
)
def test_preflight_names_what_is_wrong(account: Account, more: dict[str, str], check: str) -> None:
    if "training_plan_arn" in more:
        more = {"training_plan_arn": account.plan.arn.replace("/night", "/other")}
    asked = {
        "recommendation_id": account.recommend(),
        "backend": "sagemaker",
        "training_plan_arn": account.plan.arn,
        **more,
    }
    preview = account.client.post("/jobs/preview", json=asked).json()
    assert preview["verdict"] == "fail"
    failed = [each for each in preview["preflight"] if each["verdict"] == "fail"]
    assert any(each["name"].startswith(check) for each in failed)
    assert all(each["remedy"] for each in failed)


def test_no_quota_without_a_reservation(account: Account) -> None:
    account.fake.jobs.quota = 0
    asked = {"recommendation_id": account.recommend(), "backend": "sagemaker"}
    preview = account.client.post("/jobs/preview", json=asked).json()
    failed = [each["name"] for each in preview["preflight"] if each["verdict"] == "fail"]
    assert "quota" in failed


def test_a_plan_is_bought_once_though_the_answer_is_lost(account: Account) -> None:
    identity = account.recommend()
    offers = account.client.post("/plans/search", json={"recommendation_id": identity}).json()
    chosen = offers["offerings"][0]
    order = {"offering_id": chosen["offering_id"], "region": REGION, "price_usd": "1.00"}
    assert account.client.post("/plans", json=order).status_code == 409
    order["price_usd"] = chosen["upfront_fee"]
    account.fake.trouble += [Trouble(operation="CreateTrainingPlan", is_done=True)] * 2
    for _ in range(2):
        assert account.client.post("/plans", json=order).status_code == 202
    account.work()
    purchases = account.client.get("/plans").json()["purchases"]
    assert [each["status"] for each in purchases] == ["bought"]
    assert len(account.fake.plans.plans) == 2
    assert account.client.post("/plans", json=order).status_code == 409


def test_answers_are_as_the_service_model_says(account: Account) -> None:
    job = account.start()
    account.until(job["id"], is_final)
    assert account.service.aws
    client = account.service.aws.client("sagemaker", REGION)
    name = job["name"]
    for operation, answer in (
        ("DescribeTrainingJob", client.describe_training_job(TrainingJobName=name)),
        ("DescribeTrainingPlan", client.describe_training_plan(TrainingPlanName="night")),
        ("ListTrainingPlans", client.list_training_plans()),
        (
            "SearchTrainingPlanOfferings",
            client.search_training_plan_offerings(
                InstanceType="ml.p6-b200.48xlarge", InstanceCount=1, DurationHours=24
            ),
        ),
    ):
        content = {key: each for key, each in answer.items() if key != "ResponseMetadata"}
        assert answer_findings(operation, content) == ()


@pytest.mark.parametrize(
    ("path", "sent", "field", "said"),
    [
        ("/plans", {"region": "zz", "offering_id": "a", "price_usd": "1"}, "region", "us-west-2"),
        ("/plans", {"region": REGION, "offering_id": "a", "price_usd": -1}, "price_usd", "4800.00"),
        ("/plans/search", {"recommendation_id": "x", "region": "Z"}, "region", "us-west-2"),
        ("/jobs", {"recommendation_id": "x"}, "recommendation_id", "id of an answer"),
    ],
)
def test_a_wrong_text_is_told_by_an_example(
    account: Account, path: str, sent: dict[str, Any], field: str, said: str
) -> None:
    answer = account.client.post(path, json=sent)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert answer.json()["detail"].startswith("must look like ")
    assert said in answer.json()["detail"]

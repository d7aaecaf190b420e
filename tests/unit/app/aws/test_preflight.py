"""Preflight's checks: each judged on figures of its own, everything else being as it should."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.aws.preflight import checks
from app.aws.preflight_facts import (
    AwsFacts,
    Caller,
    NotKnown,
    Quota,
    Rate,
    Role,
    SecurityGroup,
    Subnet,
)
from app.aws.regions import partition_of
from app.aws.training_plans import Segment, TrainingPlan
from app.jobs.order import JobOrder
from app.jobs.preview import verdict
from app.jobs.training_service import Check

NOW = datetime(2026, 12, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ARN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/winter"
ECR = "763104351884.dkr.ecr.us-west-2.amazonaws.com/"
IMAGE = ECR + "pytorch:2.13-cu133-amzn2023-sagemaker"

ORDER = JobOrder(
    name="run-1",
    kind="train",
    hyperparameters={},
    num_parameters=8 * 10**9,
    instance_type="p6-b200.48xlarge",
    num_instances=2,
    gpus_per_instance=8,
    training_plan_arn=ARN,
    role_arn="arn:aws:iam::123456789012:role/trainer",
    image_uri=IMAGE,
    data_uri="s3://data/shards",
    output_uri="s3://out/run-1",
    checkpoint_uri="s3://out/checkpoints",
    max_runtime_s=30 * 3600,
    predicted_s=20 * 3600.0,
    predicted_interval_s=(15 * 3600.0, 25 * 3600.0),
    region="us-west-2",
    subnets=("subnet-1",),
    security_group_ids=("sg-1",),
)


def segment(start_hours: float, end_hours: float, zone: str = "us-west-2a") -> Segment:
    return Segment(
        start_at=NOW + start_hours * HOUR,
        end_at=NOW + end_hours * HOUR,
        availability_zone=zone,
        num_instances=2,
    )


PLAN = TrainingPlan(
    arn=ARN,
    name="winter",
    status="Active",
    status_message="",
    region="us-west-2",
    account="123456789012",
    instance_type="ml.p6-b200.48xlarge",
    num_total=4,
    num_available=3,
    num_in_use=1,
    num_unhealthy=1,
    segments=(segment(-10, 40),),
    targets=("training-job",),
    upfront_fee="1000.00",
    currency="USD",
)
FACTS = AwsFacts(
    caller=Caller(account="123456789012", arn="arn:aws:sts::123456789012:assumed-role/x/y"),
    plan=PLAN,
    quota=Quota(name="ml.p6-b200.48xlarge for training job usage", value=4.0),
    role=Role(trusts_sagemaker=True, has_conditions=False),
    subnets=(Subnet(id="subnet-1", availability_zone="us-west-2a", vpc_id="vpc-1"),),
    security_groups=(SecurityGroup(id="sg-1", admits_itself=True, reaches_itself=True),),
    buckets={"data": "us-west-2", "out": "us-west-2"},
    compute_capability=(10, 0),
    on_demand=Rate(usd_per_instance_hour=Decimal("113.50"), source="https://example.org/prices"),
    request={"OutputDataConfig": {"CompressionType": "NONE"}},
    findings=(),
)
DENIED = NotKnown(kind="denied", reason="AWS does not permit to read it: AccessDenied")


def judged(
    order: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
) -> dict[str, Check]:
    known = replace(FACTS, plan=replace(PLAN, **(plan or {})))
    found = checks(replace(ORDER, **(order or {})), replace(known, **(facts or {})), NOW)
    assert len({each.name for each in found}) == len(found)
    assert all(each.remedy for each in found if each.verdict != "pass")
    return {each.name: each for each in found}


def test_all_is_well() -> None:
    found = judged()
    assert {each.verdict for each in found.values()} == {"pass"}
    assert len(found) == 22
    assert verdict(tuple(found.values())) == "pass"


def test_the_verdict_is_the_worst() -> None:
    good, warned, failed = (
        Check(name=given, verdict=given, detail="")  # type: ignore[arg-type]
        for given in ("pass", "warn", "fail")
    )
    assert verdict([good, warned]) == "warn"
    assert verdict([warned, failed, good]) == "fail"
    assert verdict([]) == "pass"


@pytest.mark.parametrize(
    ("name", "changed", "given", "said"),
    [
        ("training plan address", {"training_plan_arn": "winter"}, "fail", "winter is not the ARN"),
        (
            "training plan address",
            {"training_plan_arn": ARN.replace("arn:aws:", "arn:aws-cn:")},
            "fail",
            "in aws",
        ),
        (
            "training plan region",
            {"region": "us-east-1"},
            "fail",
            "us-west-2, the job in us-east-1",
        ),
        ("training plan instance type", {"instance_type": "p5.48xlarge"}, "fail", "p6-b200"),
        ("training plan size", {"num_instances": 8}, "fail", "has 4 instances, the job needs 8"),
        ("free instances", {"num_instances": 3}, "warn", "2 instances are free now"),
        (
            "quota",
            {"num_instances": 5},
            "fail",
            '"ml.p6-b200.48xlarge for training job usage" is 4',
        ),
        ("role", {"role_arn": None}, "fail", "no role is not the ARN"),
        ("role", {"role_arn": "trainer"}, "fail", "trainer is not the ARN"),
        ("role", {"role_arn": "arn:aws:iam::999999999999:role/x"}, "fail", "account 999999999999"),
        ("time limit", {"max_runtime_s": 28 * 86400 + 1}, "fail", "28 days"),
        ("time limit", {"max_runtime_s": 24 * 3600}, "warn", "up to 25.0 hours"),
        ("time limit", {"max_runtime_s": 14 * 3600}, "warn", "up to 25.0 hours"),
        ("time limit", {"max_runtime_s": 14 * 3600, "checkpoint_uri": ""}, "fail", "25.0 hours"),
        ("time limit", {"predicted_s": None}, "pass", "30.0 hours"),
        ("time limit in the plan", {"max_runtime_s": 40 * 3600}, "warn", "39.5 hours left"),
        ("subnets", {"subnets": ()}, "pass", "own network"),
        ("image", {"image_uri": None}, "fail", "no image"),
        ("image region", {"image_uri": IMAGE.replace("west", "east")}, "fail", "us-east-2"),
        (
            "image region",
            {"image_uri": "public.ecr.aws/x/pytorch:2.13-cu133"},
            "warn",
            "no registry",
        ),
        ("region", {"region": None}, "fail", "no region"),
    ],
)
def test_what_is_wrong_with_the_order(
    name: str, changed: dict[str, Any], given: str, said: str
) -> None:
    check = judged(changed)[name]
    assert check.verdict == given
    assert said in check.detail


@pytest.mark.parametrize(
    ("name", "changed", "given", "said"),
    [
        ("training plan status", {"status": "Expired"}, "fail", "Expired"),
        ("training plan status", {"status": "Pending"}, "warn", "Pending"),
        ("training plan status", {"status": "Scheduled"}, "pass", "Scheduled"),
        (
            "training plan status",
            {"status": "Failed", "status_message": "payment declined"},
            "fail",
            "payment declined",
        ),
        (
            "training plan target",
            {"targets": ("hyperpod-cluster",)},
            "fail",
            "for hyperpod-cluster",
        ),
        ("training plan size", {"num_total": 1}, "fail", "has 1 instances"),
        ("free instances", {"num_unhealthy": 2}, "warn", "1 instances are free"),
        ("usable time", {"segments": (segment(-10, 0.5),)}, "fail", "no time is left"),
        ("usable time", {"segments": (segment(-10, 25.5),)}, "pass", "25.0 hours left"),
        ("usable time", {"segments": (segment(-10, 25.4),)}, "warn", "15.0 hours to 25.0 hours"),
        ("usable time", {"segments": (segment(-10, 10),)}, "warn", "9.5 hours left"),
        ("usable time", {"segments": (segment(2, 27.5),)}, "pass", "25.0 hours left"),
        (
            "gaps between segments",
            {"segments": (segment(-1, 20), segment(30, 50))},
            "pass",
            "2 segments",
        ),
        (
            "subnets",
            {"segments": (segment(-1, 20), segment(30, 50, "us-west-2c"))},
            "fail",
            "us-west-2a, us-west-2c",
        ),
        # What is over needs no subnet any more.
        (
            "subnets",
            {"segments": (segment(-40, -20, "us-west-2c"), segment(-1, 30))},
            "pass",
            "us-west-2a",
        ),
    ],
)
def test_what_is_wrong_with_the_plan(
    name: str, changed: dict[str, Any], given: str, said: str
) -> None:
    check = judged(plan=changed)[name]
    assert check.verdict == given
    assert said in check.detail


def test_an_expired_plan_is_not_asked_for_its_time() -> None:
    found = judged(plan={"status": "Expired"})
    assert "usable time" not in found
    assert verdict(tuple(found.values())) == "fail"


def test_without_checkpoints_a_run_must_fit_into_one_stretch() -> None:
    segments = (segment(-1, 14.5), segment(20, 34.5))
    with_them = judged(plan={"segments": segments})
    assert with_them["usable time"].verdict == "pass"
    assert "28.0 hours left" in with_them["usable time"].detail
    without = judged({"checkpoint_uri": ""}, plan={"segments": segments})
    assert without["usable time"].verdict == "fail"
    assert "14.0 hours left in its longest segment" in without["usable time"].detail
    assert without["gaps between segments"].verdict == "warn"


def test_segments_at_one_time_in_several_zones_are_one_stretch() -> None:
    segments = (segment(-1, 30), segment(-1, 28, "us-west-2c"))
    found = judged(plan={"segments": segments})
    assert "27.5 hours left" in found["usable time"].detail
    assert "gaps between segments" not in found


@pytest.mark.parametrize(
    ("name", "changed", "given", "said"),
    [
        ("AWS access", {"caller": NotKnown(kind="clock", reason="the clock")}, "fail", "the clock"),
        (
            "AWS access",
            {"caller": NotKnown(kind="unreachable", reason="no answer")},
            "warn",
            "not known: no answer",
        ),
        (
            "training plan account",
            {"caller": Caller(account="999999999999", arn="arn")},
            "fail",
            "of account 123456789012, this service of 999999999999",
        ),
        (
            "training plan status",
            {"plan": NotKnown(kind="missing", reason="no such plan")},
            "fail",
            "no such plan",
        ),
        ("training plan status", {"plan": DENIED}, "warn", "not known"),
        ("quota", {"quota": Quota(name="q", value=0.0)}, "fail", "is 0; the job has 2"),
        ("quota", {"quota": DENIED}, "warn", "not known"),
        (
            "role",
            {"role": Role(trusts_sagemaker=False, has_conditions=False)},
            "fail",
            "may not assume",
        ),
        (
            "role",
            {"role": Role(trusts_sagemaker=True, has_conditions=True)},
            "pass",
            "under conditions",
        ),
        ("role", {"role": NotKnown(kind="missing", reason="NoSuchEntity")}, "fail", "NoSuchEntity"),
        ("role", {"role": DENIED}, "warn", "not known"),
        ("subnets", {"subnets": NotKnown(kind="missing", reason="gone")}, "fail", "gone"),
        (
            "subnets",
            {
                "subnets": (
                    Subnet(id="1", availability_zone="us-west-2a", vpc_id="vpc-1"),
                    Subnet(id="2", availability_zone="us-west-2b", vpc_id="vpc-2"),
                )
            },
            "fail",
            "several VPCs",
        ),
        (
            "security groups",
            {
                "security_groups": (
                    SecurityGroup(id="sg-1", admits_itself=True, reaches_itself=False),
                )
            },
            "fail",
            "sg-1: does not let",
        ),
        ("security groups", {"security_groups": DENIED}, "warn", "not known"),
        (
            "bucket data",
            {"buckets": {"data": "eu-west-1"}},
            "fail",
            "in eu-west-1, the job in us-w",
        ),
        ("bucket data", {"buckets": {"data": DENIED}}, "warn", "not known"),
        ("request", {"findings": ("StoppingCondition: missing",)}, "fail", "StoppingCondition"),
        ("output compression", {"request": {}}, "warn", "89.4 GiB"),
    ],
)
def test_what_aws_says(name: str, changed: dict[str, Any], given: str, said: str) -> None:
    check = judged(facts=changed)[name]
    assert check.verdict == given
    assert said in check.detail


def test_one_instance_needs_no_rule_between_instances() -> None:
    closed = (SecurityGroup(id="sg-1", admits_itself=False, reaches_itself=False),)
    found = judged({"num_instances": 1}, {"security_groups": closed})
    assert found["security groups"].verdict == "pass"
    assert "NCCL" not in found


def test_on_demand_says_what_it_costs() -> None:
    found = judged({"training_plan_arn": None}, {"plan": None})
    check = found["reservation"]
    assert check.verdict == "warn"
    # 20 hours × 2 instances × 113.50 USD.
    assert "$4,540 at 113.50 USD per instance-hour" in check.detail
    assert not any(name.startswith("training plan") for name in found)
    unpriced = judged({"training_plan_arn": None}, {"plan": None, "on_demand": None})
    assert "no on-demand rate of p6-b200.48xlarge is published" in unpriced["reservation"].detail


@pytest.mark.parametrize(
    ("tag", "capability", "given"),
    [
        ("pytorch:2.13-cu133-amzn2023-sagemaker", (10, 0), "pass"),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", (10, 3), "pass"),
        ("pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker", (10, 0), "pass"),
        ("pytorch-training:2.7.1-gpu-py312-cu128-ubuntu22.04-sagemaker", (10, 3), "fail"),
        ("pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker", (10, 3), "warn"),
        ("pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker", (10, 0), "fail"),
        ("pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker", (9, 0), "pass"),
        ("pytorch-training:2.9.0-cpu-py312-ubuntu22.04-sagemaker", (9, 0), "fail"),
        ("pytorch:2.6-cu133", (10, 0), "fail"),
        ("mine:v3", (10, 0), "warn"),
        ("mine:cuda12.4", (10, 0), "fail"),
        ("mine:v3", None, "warn"),
        ("mine@sha256:0123", (10, 0), "warn"),
    ],
)
def test_the_image_must_have_code_for_the_gpu(
    tag: str, capability: tuple[int, int] | None, given: str
) -> None:
    found = judged({"image_uri": ECR + tag}, {"compute_capability": capability})
    assert found["image for the GPU"].verdict == given


@pytest.mark.parametrize(
    ("tag", "given"),
    [
        ("pytorch:2.12-cu130-amzn2023-sagemaker", "warn"),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", "pass"),
        ("mine:cu133", "warn"),
    ],
)
def test_several_instances_with_blackwell_need_a_new_nccl(tag: str, given: str) -> None:
    assert judged({"image_uri": ECR + tag})["NCCL"].verdict == given
    assert "NCCL" not in judged({"image_uri": ECR + tag}, {"compute_capability": (9, 0)})


def test_partitions() -> None:
    assert partition_of("cn-north-1") == "aws-cn"
    assert partition_of("us-gov-west-1") == "aws-us-gov"
    assert partition_of("us-west-2") == "aws"

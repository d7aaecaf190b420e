"""The account's training plans as choices: what each says, and why it cannot hold a run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.aws.training_plans import Segment, TrainingPlan
from app.launch_form import PLAN, launch_fields
from app.plan_choices import with_plans, without_plans

NOW = datetime(2026, 12, 4, 12, tzinfo=UTC)
SETTINGS = {"instance_type": "p6-b200.48xlarge", "num_instances": 2}
FIELD = next(each for each in launch_fields(has_sagemaker=True) if each.name == PLAN)


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def segment(start: float, end: float) -> Segment:
    return Segment(
        start_at=at(start), end_at=at(end), availability_zone="us-west-2a", num_instances=2
    )


NIGHT = TrainingPlan(
    arn="arn:aws:sagemaker:us-west-2:123456789012:training-plan/night",
    name="night",
    status="Active",
    status_message="",
    region="us-west-2",
    account="123456789012",
    instance_type="ml.p6-b200.48xlarge",
    num_total=2,
    num_available=2,
    num_in_use=0,
    num_unhealthy=0,
    segments=(segment(-1, 24.5),),
    targets=("training-job",),
    upfront_fee="4744.32",
    currency="USD",
)
SCHEDULED = replace(
    NIGHT, status="Scheduled", num_available=0, segments=(segment(24, 48),), arn="s", name="later"
)


def choices(*plans: TrainingPlan, chosen: str = "") -> tuple[tuple[str, str], ...]:
    field = with_plans(FIELD, plans, SETTINGS, chosen=chosen, region="us-west-2", now=NOW)
    assert field.kind == "select"
    return field.choices


def test_a_plan_says_what_it_has() -> None:
    assert choices(NIGHT) == (
        ("", "none: on demand"),
        (
            NIGHT.arn,
            "night: Active, 2 × ml.p6-b200.48xlarge, 2 free now, 24.0 hours left, us-west-2",
        ),
    )


def test_what_has_not_started_says_when_it_does_and_is_not_too_full() -> None:
    ((_, _none), (_, words)) = choices(SCHEDULED)
    assert words.startswith("later: Scheduled from 2026-12-05 12:00 UTC, 2 × ")
    assert "does not hold" not in words


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(NIGHT, num_available=1), "too few instances are free, the run needs 2"),
        (replace(NIGHT, num_unhealthy=1), "too few instances are free, the run needs 2"),
        (replace(NIGHT, num_total=1), "it has too few instances, the run needs 2"),
        (
            replace(NIGHT, instance_type="ml.p5.48xlarge"),
            "it has ml.p5.48xlarge, the run needs ml.p6-b200.48xlarge",
        ),
        (replace(NIGHT, targets=("hyperpod-cluster",)), "it is not for training jobs"),
        (replace(NIGHT, segments=(segment(-24, 0.4),)), "no time is left in it"),
        (replace(NIGHT, segments=(segment(-24, 0.4),), num_total=1), "; no time is left in it"),
    ],
)
def test_what_cannot_hold_the_run_says_why_and_comes_last(plan: TrainingPlan, reason: str) -> None:
    small = replace(plan, arn="small")
    values = choices(small, NIGHT)
    assert [value for value, _ in values] == ["", NIGHT.arn, "small"]
    assert "(does not hold this run: " in values[2][1]
    assert values[2][1].endswith(f"{reason})")


def test_plans_that_ended_are_left_out_unless_one_is_chosen() -> None:
    over = replace(NIGHT, status="Expired", arn="over")
    assert len(choices(over)) == 1
    ((_, _none), (value, words)) = choices(over, chosen="over")
    assert value == "over"
    assert words.endswith("no time left, us-west-2 (does not hold this run: it is Expired)")


def test_an_arn_that_is_not_in_the_list_is_kept() -> None:
    assert choices(NIGHT, chosen="arn:other")[-1] == (
        "arn:other",
        "arn:other (not among the plans in us-west-2)",
    )
    assert len(choices(NIGHT, chosen=NIGHT.arn)) == 2


def test_without_a_list_the_field_says_why() -> None:
    field = without_plans(FIELD, "AWS does not permit to list")
    assert (field.kind, field.choices) == ("text", ())
    assert field.hint.startswith(FIELD.hint)
    assert field.hint.endswith("There is no list to choose from: AWS does not permit to list")

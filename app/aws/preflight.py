"""Preflight of a SageMaker job: each check with its verdict, the figures behind it, and a remedy.

Pure: facts are gathered by app.aws.preflight_facts. What could not be read warns, and never passes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_CEILING, Decimal

from advisor.units import HOUR_S
from app.aws.preflight_facts import (
    PLAN_ARN,
    AwsFacts,
    Image,
    NotKnown,
    Subnet,
    parse_image,
    quota_name,
    sagemaker_type,
)
from app.aws.regions import partition_of
from app.aws.training_plans import TrainingPlan, end_margin_s, minute
from app.formatting import duration, gibibytes, usd
from app.jobs.order import JobOrder
from app.jobs.training_service import Check, Verdict

# SageMaker developer guide, training jobs: MaxRuntimeInSeconds is at most 28 days.
MAX_RUNTIME_S = 28 * 24 * HOUR_S
ROLE_ARN = re.compile(r"arn:(aws[a-z-]*):iam::(\d{12}):role/[\w+=,.@/-]+")  # botocore's model
# CUDA and torch that have code for a GPU, by compute capability: NVIDIA's release notes (sm_100 and
# sm_120 since 12.8, sm_103 since 12.9) and torch's, whose builds have them since 2.7. An image for
# sm_103 should be of 13.0: libraries with code for sm_100a only do not run there.
MIN_CUDA = {(10, 0): (12, 8), (10, 3): (12, 9), (12, 0): (12, 8)}
ADVISED_CUDA = {(10, 3): (13, 0)}
MIN_TORCH = (2, 7)
# AWS's Deep Learning Containers carry NCCL 2.26.2 up to torch 2.12, and 2.30.7 in 2.13 (release
# notes); AWS's own examples for B200 ask for 2.28 (awslabs/awsome-distributed-ai#1035).
MIN_NCCL = "2.28"
FIRST_TORCH_WITH_NCCL = (2, 13)
STATE_BYTES = 12


def checks(order: JobOrder, facts: AwsFacts, now: datetime) -> tuple[Check, ...]:
    """Every check that applies to an order."""
    found = [*_access(order, facts), *_quota(order, facts), *_role(order, facts)]
    found += _reservation(order, facts, now)
    found += _runtime(order)
    found += _network(order, facts, now)
    found += _buckets(order, facts)
    found += _image(order, facts)
    found += _request(order, facts)
    return tuple(found)


def _good(name: str, detail: str) -> Check:
    return Check(name=name, verdict="pass", detail=detail)


def _judged(name: str, given: Verdict, detail: str, remedy: str) -> Check:
    return Check(name=name, verdict=given, detail=detail, remedy="" if given == "pass" else remedy)


def _unknown(name: str, fact: NotKnown) -> Check:
    """What is missing, or nobody may use, fails; what could not be seen warns."""
    fails = fact.kind in ("missing", "clock", "credentials")
    remedy = {
        "missing": "correct the name, or create it in this region",
        "clock": "set the clock of this machine, then check again",
        "credentials": "renew the credentials of this service, then check again",
        "denied": "permit this service to read it, or look at it yourself",
    }.get(fact.kind, "check again in a minute, or look at it yourself")
    detail = fact.reason if fails else f"not known: {fact.reason}"
    return Check(name=name, verdict="fail" if fails else "warn", detail=detail, remedy=remedy)


def _access(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    if order.region is None:
        yield _judged("region", "fail", "the job names no region", "name the region of the job")
    if isinstance(facts.caller, NotKnown):
        yield _unknown("AWS access", facts.caller)
    else:
        yield _good("AWS access", f"account {facts.caller.account}, as {facts.caller.arn}")


def _quota(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    if isinstance(facts.quota, NotKnown):
        # A quota that AWS does not list says nothing of how many instances are allowed.
        is_listed = facts.quota.kind != "missing"
        yield _unknown("quota", facts.quota if is_listed else replace(facts.quota, kind="no"))
        return
    name = quota_name(order.instance_type)
    allowed = int(facts.quota.value)
    yield _judged(
        "quota",
        "pass" if allowed >= order.num_instances else "fail",
        f'"{name}" is {allowed}; the job has {order.num_instances} instances',
        f'ask for {order.num_instances} of "{name}" in Service Quotas of {order.region}',
    )


def _role(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    found = ROLE_ARN.fullmatch(order.role_arn or "")
    if found is None:
        detail = f"{order.role_arn or 'no role'} is not the ARN of a role"
        yield _judged("role", "fail", detail, "give role_arn: arn:aws:iam::ACCOUNT:role/NAME")
        return
    if not isinstance(facts.caller, NotKnown) and found[2] != facts.caller.account:
        detail = f"the role is of account {found[2]}, this service of {facts.caller.account}"
        yield _judged("role", "fail", detail, "give a role of this service's own account")
        return
    if facts.role is None or isinstance(facts.role, NotKnown):
        fact = facts.role or NotKnown(kind="no", reason="the role was not read")
        yield _unknown("role", fact)
        return
    yield _judged(
        "role",
        "pass" if facts.role.trusts_sagemaker else "fail",
        (
            "SageMaker may assume the role"
            + (", under conditions that are not examined" if facts.role.has_conditions else "")
            if facts.role.trusts_sagemaker
            else "SageMaker may not assume the role: its trust policy does not allow it"
        ),
        "allow sts:AssumeRole to the service sagemaker.amazonaws.com in the role's trust policy",
    )


def _reservation(order: JobOrder, facts: AwsFacts, now: datetime) -> Iterator[Check]:
    if order.training_plan_arn is None:
        yield _no_reservation(order, facts)
        return
    address = PLAN_ARN.fullmatch(order.training_plan_arn)
    partition = partition_of(order.region or "")
    if address is None or address["partition"] != partition:
        detail = f"{order.training_plan_arn} is not the ARN of a training plan in {partition}"
        example = f"arn:{partition}:sagemaker:REGION:ACCOUNT:training-plan/NAME"
        yield _judged(
            "training plan address", "fail", detail, f"copy it from GET /plans: {example}"
        )
        return
    same = address["region"] == order.region
    yield _judged(
        "training plan region",
        "pass" if same else "fail",
        f"the plan is in {address['region']}, the job in {order.region}",
        "run the job in the plan's region: a plan cannot be used from another",
    )
    if not isinstance(facts.caller, NotKnown):
        yield _judged(
            "training plan account",
            "pass" if address["account"] == facts.caller.account else "fail",
            f"the plan is of account {address['account']}, this service of {facts.caller.account}",
            "use a plan of this account: plans cannot be shared",
        )
    if facts.plan is None or isinstance(facts.plan, NotKnown):
        fact = facts.plan or NotKnown(kind="no", reason="the plan was not read")
        yield _unknown("training plan status", fact)
        return
    yield from _plan(order, facts.plan)
    if facts.plan.is_live:
        yield from _plan_time(order, facts.plan, now)


def _no_reservation(order: JobOrder, facts: AwsFacts) -> Check:
    detail = "the job names no training plan: no instances are kept for it, and it may wait"
    seconds = order.max_runtime_s if order.predicted_s is None else order.predicted_s
    if facts.on_demand is None:
        detail += f"; no on-demand rate of {order.instance_type} is published for {order.region}"
    else:
        rate = facts.on_demand.usd_per_instance_hour
        total = rate * order.num_instances * Decimal(seconds) / HOUR_S
        cents = total.quantize(Decimal("0.01"), rounding=ROUND_CEILING)
        detail += (
            f"; {duration(seconds / HOUR_S)} on {order.num_instances} instances cost about "
            f"{usd(float(cents))} at {rate} USD per instance-hour ({facts.on_demand.source})"
        )
    return _judged("reservation", "warn", detail, "name a training plan (GET /plans lists them)")


def _plan(order: JobOrder, plan: TrainingPlan) -> Iterator[Check]:
    words = f" ({plan.status_message})" if plan.status_message else ""
    status: Verdict = "warn" if plan.status == "Pending" else "pass" if plan.is_live else "fail"
    remedy = "choose another plan, or search for a new one"
    if status == "warn":
        remedy = "wait until AWS has the payment: the plan is then Scheduled"
    detail = f"the plan is {plan.status}{words}"
    yield _judged("training plan status", status, detail, remedy)
    targets = ", ".join(plan.targets) or "nothing"
    is_for_jobs: Verdict = "pass" if "training-job" in plan.targets else "fail"
    detail = f"the plan is for {targets}; a job needs training-job"
    yield _judged("training plan target", is_for_jobs, detail, "choose a plan for training jobs")
    wanted = sagemaker_type(order.instance_type)
    same: Verdict = "pass" if plan.instance_type == wanted else "fail"
    detail = f"the plan has {plan.instance_type or 'no instances'}, the job needs {wanted}"
    yield _judged("training plan instance type", same, detail, f"choose a plan with {wanted}")
    total = plan.num_total or 0
    detail = f"the plan has {total} instances, the job needs {order.num_instances}"
    enough: Verdict = "pass" if total >= order.num_instances else "fail"
    yield _judged("training plan size", enough, detail, "choose a larger plan, or fewer instances")
    if plan.status == "Active" and plan.num_free is not None and enough == "pass":
        yield _judged(
            "free instances",
            "pass" if plan.num_free >= order.num_instances else "warn",
            f"{plan.num_free} instances are free now ({plan.num_available} available, "
            f"{plan.num_unhealthy or 0} unhealthy), the job needs {order.num_instances}",
            "the job will wait until others end: expect it to start later",
        )


def _plan_time(order: JobOrder, plan: TrainingPlan, now: datetime) -> Iterator[Check]:
    left = plan.windows(now)
    usable_s = plan.usable_s(now)
    if not left:
        detail = f"no time is left in the plan: AWS takes its instances {_margin(order)} before "
        end = minute(max(each.end_at for each in plan.segments)) if plan.segments else "its end"
        yield _judged("usable time", "fail", f"{detail}{end}", "choose or search another plan")
        return
    has_checkpoints = bool(order.checkpoint_uri)
    # Without checkpoints a run that is interrupted begins again: it must fit into one stretch.
    room_s = usable_s if has_checkpoints else max(window.length_s for window in left)
    yield _usable(order, room_s, has_checkpoints, len(left))
    if len(left) > 1:
        detail = f"the plan has {len(left)} segments with gaps between them: the job is "
        detail += "interrupted, and " + ("goes on from" if has_checkpoints else "has no")
        remedy = "name a checkpoint_uri, so that the job can go on in the next segment"
        given: Verdict = "pass" if has_checkpoints else "warn"
        yield _judged("gaps between segments", given, f"{detail} checkpoints", remedy)
    yield _judged(
        "time limit in the plan",
        "pass" if order.max_runtime_s <= usable_s else "warn",
        f"the job may run for {_hours(order.max_runtime_s)}, the plan has {_hours(usable_s)} left",
        f"set a limit of at most {int(usable_s)} s, so that the job ends and saves by itself",
    )


def _usable(order: JobOrder, room_s: float, has_checkpoints: bool, num_windows: int) -> Check:
    where = "" if has_checkpoints or num_windows == 1 else " in its longest segment"
    detail = f"the plan has {_hours(room_s)} left{where}, less {_margin(order)} at each end"
    if order.predicted_s is None:
        return _good("usable time", detail)
    low_s, high_s = order.predicted_interval_s or (order.predicted_s, order.predicted_s)
    detail += f"; the run is predicted to take {_hours(order.predicted_s)}"
    detail += f" ({_hours(low_s)} to {_hours(high_s)})"
    if high_s <= room_s:
        return _good("usable time", detail)
    if low_s > room_s and not has_checkpoints:
        remedy = "name a checkpoint_uri and go on in another plan, or choose a longer plan"
        return _judged("usable time", "fail", detail, remedy)
    remedy = "extend the plan, or go on from the checkpoint in another one"
    return _judged("usable time", "warn", detail, remedy)


def _runtime(order: JobOrder) -> Iterator[Check]:
    detail = f"the job may run for {_hours(order.max_runtime_s)}"
    if order.max_runtime_s > MAX_RUNTIME_S:
        remedy = "set a limit of at most 28 days, and resume from the checkpoint"
        yield _judged("time limit", "fail", f"{detail}; SageMaker ends jobs at 28 days", remedy)
        return
    if order.predicted_s is None:
        yield _good("time limit", detail)
        return
    low_s, high_s = order.predicted_interval_s or (order.predicted_s, order.predicted_s)
    given: Verdict = "pass" if order.max_runtime_s >= high_s else "warn"
    if order.max_runtime_s < low_s and not order.checkpoint_uri:
        given = "fail"
    detail += f"; the run is predicted to take up to {_hours(high_s)}"
    remedy = f"set a limit of at least {int(high_s) + 1} s"
    yield _judged("time limit", given, detail, remedy)


def _network(order: JobOrder, facts: AwsFacts, now: datetime) -> Iterator[Check]:
    if not order.subnets:
        yield _good("subnets", "no subnet is named: the job runs in SageMaker's own network")
        return
    if isinstance(facts.subnets, NotKnown):
        yield _unknown("subnets", facts.subnets)
    else:
        yield _subnets(facts.subnets, facts.plan, now)
    if order.num_instances == 1 and order.security_group_ids:
        yield _good("security groups", "one instance needs no rule between instances")
    elif isinstance(facts.security_groups, NotKnown):
        yield _unknown("security groups", facts.security_groups)
    else:
        # AWS's guide to EFA: all traffic in and out, to the group itself; 0.0.0.0/0 is not enough.
        open_groups = [
            each.id for each in facts.security_groups if each.admits_itself and each.reaches_itself
        ]
        named = ", ".join(open_groups or order.security_group_ids) or "no security group"
        verb = "lets" if open_groups else "does not let"
        yield _judged(
            "security groups",
            "pass" if open_groups else "fail",
            f"{named}: {verb} all traffic between its own members in and out",
            "add two rules to one group of the job: all traffic in from, and out to, itself",
        )


def _subnets(
    subnets: tuple[Subnet, ...], plan: TrainingPlan | NotKnown | None, now: datetime
) -> Check:
    zones = {each.availability_zone for each in subnets}
    detail = f"the subnets are in {', '.join(sorted(zones))}"
    if len({each.vpc_id for each in subnets}) > 1:
        remedy = "name subnets of one VPC only"
        return _judged("subnets", "fail", f"{detail}, of several VPCs", remedy)
    if not isinstance(plan, TrainingPlan):
        return _good("subnets", detail)
    needed = {each.availability_zone for each in plan.segments if each.end_at > now} - {""}
    missing = ", ".join(sorted(needed - zones))
    given: Verdict = "fail" if missing else "pass"
    detail += f"; the plan has instances in {', '.join(sorted(needed)) or 'no named zone'}"
    return _judged("subnets", given, detail, f"add a subnet of the same VPC in {missing}")


def _buckets(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    for bucket, region in facts.buckets.items():
        if isinstance(region, NotKnown):
            yield _unknown(f"bucket {bucket}", region)
            continue
        given: Verdict = "pass" if region == order.region else "fail"
        detail = f"the bucket is in {region}, the job in {order.region}"
        remedy = f"use a bucket in {order.region}: SageMaker reads no other"
        yield _judged(f"bucket {bucket}", given, detail, remedy)


def _image(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    if not order.image_uri:
        yield _judged("image", "fail", "the job names no image", "give image_uri")
        return
    image = parse_image(order.image_uri)
    given: Verdict = "pass" if image.region == order.region else "fail" if image.region else "warn"
    detail = f"the image is in {image.region or 'no registry of AWS (ECR)'}, the job in "
    remedy = f"use the same image from the registry of {order.region}"
    yield _judged("image region", given, f"{detail}{order.region}", remedy)
    yield _image_build(image, facts.compute_capability)
    is_blackwell = facts.compute_capability is not None and facts.compute_capability[0] >= 10
    if is_blackwell and order.num_instances > 1:
        is_new = image.torch is not None and image.torch >= FIRST_TORCH_WITH_NCCL
        detail = f"several instances with Blackwell GPUs need NCCL {MIN_NCCL} or newer; AWS's "
        detail += f"images carry 2.26.2 up to torch 2.12; this one is of torch {_dots(image.torch)}"
        remedy = "use AWS's image of torch 2.13 or newer, or see to it that NCCL is new enough"
        yield _judged("NCCL", "pass" if is_new else "warn", detail, remedy)


def _image_build(image: Image, capability: tuple[int, int] | None) -> Check:
    least = MIN_CUDA.get(capability or (0, 0))
    detail = f"the tag {image.tag!r} tells CUDA {_dots(image.cuda)}, torch {_dots(image.torch)}"
    given: Verdict = "pass"
    remedy = "use an image with CUDA for this job"
    if image.is_for_cpu:
        given = "fail"
    elif capability is None:
        given, remedy = "warn", "look up which CUDA the GPU of this instance type needs"
    elif least is not None:
        advised = ADVISED_CUDA.get(capability, least)
        detail += f"; this GPU (sm_{capability[0]}{capability[1]}) needs CUDA {_dots(least)} and "
        detail += f"torch {_dots(MIN_TORCH)} or newer"
        remedy = f"use AWS's image of torch 2.13 with CUDA 13.3, or any with {_dots(advised)}"
        if (image.cuda or least) < least or (image.torch or MIN_TORCH) < MIN_TORCH:
            given = "fail"
        elif image.cuda is None or image.torch is None or image.cuda < advised:
            given = "warn"
    return _judged("image for the GPU", given, detail, remedy)


def _request(order: JobOrder, facts: AwsFacts) -> Iterator[Check]:
    if facts.findings is not None:
        detail = "; ".join(facts.findings) or "the request has nothing that AWS's own model refuses"
        remedy = "correct the fields named; a newer botocore may know newer values"
        yield _judged("request", "fail" if facts.findings else "pass", detail, remedy)
    if facts.request is not None:
        # The API's own default is GZIP.
        output = facts.request.get("OutputDataConfig", {}).get("CompressionType", "GZIP")
        detail = f"what the job leaves (about {gibibytes(STATE_BYTES * order.num_parameters)}) is "
        detail += "sent as it is" if output == "NONE" else "packed with gzip by one process"
        remedy = "set CompressionType to NONE: packing large models takes paid hours"
        yield _judged("output compression", "pass" if output == "NONE" else "warn", detail, remedy)


def _dots(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else f"{version[0]}.{version[1]}"


def _hours(seconds: float) -> str:
    return duration(seconds / HOUR_S)


def _margin(order: JobOrder) -> str:
    return duration(end_margin_s(order.instance_type) / HOUR_S)

"""Plan choices: the account's training plans in the launch form, beside the settings to run.

A plan that cannot hold the run is shown with the reason and can still be chosen: the checks before
the start decide. Places in the texts have names, so that no sentence of others is taken for one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from advisor.units import HOUR_S
from app.aws.offerings import TARGET
from app.aws.preflight_facts import sagemaker_type
from app.aws.training_plans import TrainingPlan, minute
from app.formatting import duration, whole
from app.forms import FormField
from app.translations.catalogue import gettext as _
from app.translations.catalogue import told


def with_plans(
    field: FormField,
    plans: Sequence[TrainingPlan],
    settings: Mapping[str, Any],
    *,
    chosen: str,
    region: str,
    now: datetime,
) -> FormField:
    """The field with a choice for each plan that jobs can still use, those that hold the run first.

    settings: of the run, as in its recommendation. chosen: an ARN, or ""; it is a choice whatever
    it names. region: whose plans these are.
    """
    shown = [each for each in plans if each.is_live or each.arn == chosen]
    reasons = {each.arn: "; ".join(_reasons(each, settings, now)) for each in shown}
    shown.sort(key=lambda each: bool(reasons[each.arn]))
    choices = [("", field.blank)]
    choices += [(each.arn, _words(each, reasons[each.arn], now)) for each in shown]
    if chosen and chosen not in reasons:
        unlisted = _("{arn} (not among the plans in {region})")
        choices.append((chosen, unlisted.format(arn=chosen, region=region)))
    hint = _("Those in {region} that jobs can still use, beside the settings shown above.")
    return replace(field, kind="select", choices=tuple(choices), hint=hint.format(region=region))


def without_plans(field: FormField, why: str) -> FormField:
    """The field for an ARN, with the reason why there is no list of plans."""
    hint = _("{hint} There is no list to choose from: {reason}")
    return replace(field, hint=hint.format(hint=told(field.hint), reason=told(why)))


def _words(plan: TrainingPlan, reason: str, now: datetime) -> str:
    usable_s = plan.usable_s(now)
    words = _("{name}: {status}, {count} × {type}, {free} free now, {time} left, {region}").format(
        name=plan.name,
        status=_status(plan),
        count=whole(plan.num_total),
        type=plan.instance_type or "?",
        free=whole(plan.num_free if plan.is_live else 0),
        time=duration(usable_s / HOUR_S) if usable_s else _("no time"),
        region=plan.region,
    )
    if not reason:
        return words
    return _("{plan} (does not hold this run: {reason})").format(plan=words, reason=reason)


def _status(plan: TrainingPlan) -> str:
    """AWS's own word, with the start of what has not started yet."""
    if plan.status != "Scheduled" or not plan.segments:
        return plan.status
    start = minute(plan.segments[0].start_at)
    return _("{status} from {start}").format(status=plan.status, start=start)


def _reasons(plan: TrainingPlan, settings: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """Why a plan cannot hold the run, as the checks before the start would find it."""
    wanted, count = sagemaker_type(settings["instance_type"]), settings["num_instances"]
    if not plan.is_live:
        yield _("it is {status}").format(status=plan.status)
        return
    if TARGET not in plan.targets:
        yield _("it is not for training jobs")
    if plan.instance_type != wanted:
        yield _("it has {type}, the run needs {wanted}").format(
            type=plan.instance_type or "?", wanted=wanted
        )
    elif (plan.num_total or 0) < count:
        yield _("it has too few instances, the run needs {count}").format(count=count)
    elif plan.status == "Active" and plan.num_free is not None and plan.num_free < count:
        yield _("too few instances are free, the run needs {count}").format(count=count)
    if not plan.windows(now):
        yield _("no time is left in it")

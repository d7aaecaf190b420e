"""What DescribeTrainingJob says of a job, in the words of the worker."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from app.aws.request import sagemaker_type
from app.jobs.order import JobOrder
from app.jobs.training_service import (
    JobNotFound,
    JobStatus,
    Observation,
    Progress,
    StatusTransition,
)

_FINAL = {
    "Completed": JobStatus.COMPLETED,
    "Failed": JobStatus.FAILED,
    "Stopped": JobStatus.STOPPED,
    "Stopping": JobStatus.STOPPING,
}
# Of a job in progress: the program runs, or its last files are on their way. In all other states,
# those of which AWS may add some at any time, it waits for instances, image or data.
_AT_WORK = ("Training", "Uploading")
# Why a job that SageMaker calls stopped was not stopped by anybody.
_LIMITS = {
    "MaxRuntimeExceeded": "MaxRuntimeExceeded: the time limit of the job was reached",
    "MaxWaitTimeExceeded": "MaxWaitTimeExceeded: no instances were free for too long",
}


def observation_of(
    answer: Mapping[str, Any], order: JobOrder, progress: Progress | None
) -> Observation:
    """An answer of DescribeTrainingJob as an observation.

    Raises JobNotFound where the name is another's, or the job is being deleted.
    """
    if not is_ours(answer, order) or answer["TrainingJobStatus"] == "Deleting":
        raise JobNotFound(order.name)
    status, detail = answer["TrainingJobStatus"], str(answer.get("SecondaryStatus") or "")
    resources = answer.get("ResourceConfig", {})
    return Observation(
        status=_FINAL.get(status)
        or (JobStatus.RUNNING if detail in _AT_WORK else JobStatus.SUBMITTED),
        backend_status=f"{status}: {detail}" if detail and detail != status else status,
        backend_arn=answer.get("TrainingJobArn"),
        transitions=_transitions(answer),
        failure_reason=answer.get("FailureReason") or _LIMITS.get(detail),
        started_at=_utc(answer.get("TrainingStartTime")),
        ended_at=_utc(answer.get("TrainingEndTime")) if status in _FINAL else None,
        billable_s=answer.get("BillableTimeInSeconds"),
        training_plan_arn=resources.get("TrainingPlanArn"),
        instance_type=resources.get("InstanceType"),
        num_instances=resources.get("InstanceCount"),
        changes=_changes(resources, order),
        progress=progress,
    )


def is_ours(answer: Mapping[str, Any], order: JobOrder) -> bool:
    """Whether the job of this name is the order's: of its role, and writing where it writes."""
    return (
        answer.get("RoleArn") == order.role_arn
        and answer.get("OutputDataConfig", {}).get("S3OutputPath") == order.output_uri
        and answer.get("CheckpointConfig", {}).get("S3Uri") == order.checkpoint_uri
    )


def _transitions(answer: Mapping[str, Any]) -> tuple[StatusTransition, ...]:
    return tuple(
        StatusTransition(
            status=str(each["Status"]),
            started_at=each["StartTime"].astimezone(UTC),
            ended_at=_utc(each.get("EndTime")),
            message=str(each.get("StatusMessage") or ""),
        )
        for each in answer.get("SecondaryStatusTransitions") or ()
    )


def _changes(resources: Mapping[str, Any], order: JobOrder) -> tuple[str, ...]:
    """How the instances differ from what was ordered."""
    found = (resources.get("InstanceCount"), resources.get("InstanceType"))
    wanted = (order.num_instances, sagemaker_type(order))
    if None in found or found == wanted:
        return ()
    return (f"runs on {found[0]} × {found[1]} instead of {wanted[0]} × {wanted[1]}",)


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)

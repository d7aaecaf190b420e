"""SagemakerService: jobs as SageMaker training jobs.

The SageMaker SDK is loaded with the first job that is submitted, so in the worker only.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from advisor.catalog import Catalog
from advisor.errors import InvalidField
from app.aws.clients import AwsClients
from app.aws.described import is_ours, observation_of
from app.aws.errors import backend_errors
from app.aws.job_files import log_lines, metrics_tail, result_document
from app.aws.launch import code_uri_of, upload_code
from app.aws.preflight import checks
from app.aws.preflight_facts import gather_facts
from app.aws.request import image_of, training_job_request
from app.aws.scripts import launch_files
from app.aws.service_model import findings
from app.jobs.order import JobOrder
from app.jobs.progress import num_steps_of, progress_in
from app.jobs.training_service import (
    Check,
    JobNotFound,
    JobStatus,
    Observation,
    Progress,
    Refused,
    Unavailable,
)

# Their keys are the user's own words, not the API's.
_MAPS = ("HyperParameters", "Environment")


class SagemakerService:
    """Jobs of the account whose credentials this process has."""

    name = "sagemaker"

    def __init__(
        self,
        clients: AwsClients,
        catalog: Catalog,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """catalog: for the GPU of an instance type, and for its published rate."""
        self._clients = clients
        self._catalog = catalog
        self._clock = clock

    def preflight(self, order: JobOrder) -> tuple[Check, ...]:
        """Everything that AWS can be asked without changing anything there."""
        try:
            whole = replace(order, image_uri=image_of(order))
            request: Mapping[str, Any] | None = training_job_request(whole, code_uri_of(whole))
        except InvalidField:
            # That there is no image is among the checks.
            whole, request = order, None
        facts = gather_facts(
            self._clients,
            whole,
            catalog=self._catalog,
            request=request,
            findings=None if request is None else findings("CreateTrainingJob", request),
        )
        return checks(whole, facts, self._clock())

    def files(self, order: JobOrder) -> Mapping[str, str]:
        """The exact request, and programs that send it. Raises InvalidField without an image."""
        return launch_files(order, training_job_request(order, code_uri_of(order)))

    def submit(self, order: JobOrder) -> None:
        """Upload the code and create the training job; one of this name that is ours is success."""
        with backend_errors("write the request"):
            request = training_job_request(order, code_uri_of(order))
            found = findings("CreateTrainingJob", request)
        if found:
            raise Refused("invalid_request", "; ".join(found))
        upload_code(self._clients, order)
        try:
            with backend_errors("create the training job"):
                _create(request, self._clients.session(order.region), order.region)
        except Refused as error:
            if error.code != "ResourceInUse":
                raise
            # An earlier try whose answer was lost, unless somebody else has the name.
            if not is_ours(self._describe(order), order):
                raise Refused(
                    "name_taken", f"another training job is named {order.name}: start it anew"
                ) from error
        except JobNotFound as error:
            # It was created, and the SDK asked for it before AWS knew it everywhere.
            raise Unavailable(f"the new job cannot be seen yet: {error}") from error

    def observe(self, order: JobOrder) -> Observation:
        """What DescribeTrainingJob, metrics.jsonl and result.json say now. Raises JobNotFound."""
        answer = self._describe(order)
        seen = observation_of(answer, order, None)
        if seen.status is JobStatus.SUBMITTED:
            return seen
        seen = replace(seen, progress=self._progress(order))
        if seen.status is JobStatus.COMPLETED:
            told = str((self.result(order) or {}).get("outcome", ""))
            if told.startswith("stopped"):
                # The program saved and ended early by itself, which SageMaker cannot tell.
                return replace(seen, status=JobStatus.STOPPED, failure_reason=told)
        return seen

    def stop(self, order: JobOrder) -> None:
        """Ask SageMaker to let the job save and end. Raises JobNotFound."""
        try:
            with backend_errors("stop the job"):
                self._sagemaker(order).stop_training_job(TrainingJobName=order.name)
        except Refused:
            # SageMaker refuses to stop what has ended.
            if self._describe(order)["TrainingJobStatus"] in ("InProgress", "Deleting"):
                raise

    def result(self, order: JobOrder) -> Mapping[str, Any] | None:
        """The trainer's result.json beside the checkpoints; None when there is none."""
        return result_document(self._clients, order)

    def log_tail(self, order: JobOrder, *, num_lines: int) -> tuple[str, ...]:
        """The newest lines of the job's logs in CloudWatch."""
        return log_lines(self._clients, order, num_lines)

    def _describe(self, order: JobOrder) -> Mapping[str, Any]:
        with backend_errors("describe the job"):
            answer: Mapping[str, Any] = self._sagemaker(order).describe_training_job(
                TrainingJobName=order.name
            )
        return answer

    def _progress(self, order: JobOrder) -> Progress | None:
        num_gpus = order.num_instances * order.gpus_per_instance
        num_steps = num_steps_of(order.hyperparameters, num_gpus)
        return progress_in(metrics_tail(self._clients, order), num_steps)

    def _sagemaker(self, order: JobOrder) -> Any:
        return self._clients.client("sagemaker", order.region)


def _create(request: Mapping[str, Any], session: Any, region: str | None) -> None:
    """Send the request by the SDK's resource layer."""
    from sagemaker.core.resources import TrainingJob  # noqa: PLC0415 - 185 MB, in the worker only
    from sagemaker.core.utils.utils import pascal_to_snake  # noqa: PLC0415

    # It writes each request to the log.
    logging.getLogger("sagemaker").setLevel(logging.WARNING)

    def respelled(value: Any) -> Any:
        """A part of the request with its keys as the SDK spells them."""
        if isinstance(value, list):
            return [respelled(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        return {
            pascal_to_snake(key): dict(each) if key in _MAPS else respelled(each)
            for key, each in value.items()
        }

    TrainingJob.create(**respelled(request), session=session, region=region)

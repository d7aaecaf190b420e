"""What a job leaves in S3 and in CloudWatch while it runs and afterwards."""

import json
from typing import Any

from app.aws.clients import AwsClients
from app.aws.errors import backend_errors
from app.aws.launch import split_s3
from app.aws.request import report_prefix
from app.jobs.order import JobOrder
from app.jobs.training_service import Refused

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
TAIL_BYTES = 64 * 1024
MAX_RESULT_BYTES = 16 * 1024**2
# Each instance has a log of its own; of many, those that wrote last tell the most.
MAX_STREAMS = 4


def metrics_tail(clients: AwsClients, order: JobOrder) -> str:
    """The end of metrics.jsonl; "" where there is none yet, or it may not be read."""
    try:
        return _read(clients, order, "metrics.jsonl", f"bytes=-{TAIL_BYTES}") or ""
    except Refused:
        return ""


def result_document(clients: AwsClients, order: JobOrder) -> dict[str, Any] | None:
    """result.json of a job; None where there is none. Raises BackendError."""
    text = _read(clients, order, "result.json", f"bytes=0-{MAX_RESULT_BYTES}")
    if text is None or len(text) > MAX_RESULT_BYTES:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def log_lines(clients: AwsClients, order: JobOrder, num_lines: int) -> tuple[str, ...]:
    """The newest lines of all instances, in the order of time. Raises BackendError."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - only with AWS

    with backend_errors("read the log of the job"):
        client = clients.client("logs", order.region)
        try:
            streams = client.describe_log_streams(
                logGroupName=LOG_GROUP, logStreamNamePrefix=f"{order.name}/"
            )["logStreams"]
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code == "ResourceNotFoundException":
                return ()
            if code in ("AccessDenied", "AccessDeniedException"):
                return (f"this service may not read the log: permit logs:* on {LOG_GROUP}",)
            raise
        streams.sort(key=lambda each: each.get("lastEventTimestamp", 0), reverse=True)
        events = [
            (event["timestamp"], event["message"].rstrip("\n"))
            for stream in streams[:MAX_STREAMS]
            for event in client.get_log_events(
                logGroupName=LOG_GROUP,
                logStreamName=stream["logStreamName"],
                limit=num_lines,
                startFromHead=False,
            )["events"]
        ]
    events.sort(key=lambda each: each[0])
    return tuple(message for _, message in events[-num_lines:])


def _read(clients: AwsClients, order: JobOrder, name: str, part: str) -> str | None:
    from botocore.exceptions import ClientError  # noqa: PLC0415 - only with AWS

    bucket, prefix = split_s3(report_prefix(order))
    with backend_errors(f"read {name} of the job"):
        try:
            answer = clients.client("s3", order.region).get_object(
                Bucket=bucket, Key=f"{prefix}{name}", Range=part
            )
            content: bytes = answer["Body"].read()
        except ClientError as error:
            # 403 is what AWS says of a missing file to those who may not list the bucket; 416 of
            # any part of an empty one.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 404, 416):
                return None
            raise
    return content.decode("utf-8", "replace")

"""The CreateTrainingJob request of an order: the one place where orders become AWS's words."""

import re
from typing import Any

from app.aws.images import image_for
from app.jobs.order import JobOrder

CHECKPOINTS = "/opt/ml/checkpoints"
DATA = "/opt/ml/input/data/train"
LAUNCH = "exec bash /opt/ml/input/data/code/launch.sh"
# Of instances with storage of their own, which all with fast GPUs have, AWS uses that instead.
VOLUME_GIB = 30
# How long a job waits for free instances of an active reservation, which are paid for anyway; the
# time before the reservation starts does not count (AWS API reference, StoppingCondition).
PENDING_S = 86_400
# Only after an error of AWS itself; the run goes on from its newest checkpoint.
RETRIES = 3
TAG = "shardwise:job"
# With Elastic Fabric Adapter and RDMA between GPUs. On a type without, FI_PROVIDER=efa hangs.
_EFA = re.compile(r"(p4de?|p5|p5en?|p6-b\d+|p6e-gb\d+)\.(24|36|48|72)xlarge")
_FSX = re.compile(r"fsx://(?P<id>fs-[0-9a-f]+)(?P<path>/.*)")


def training_job_request(order: JobOrder, code_uri: str) -> dict[str, Any]:
    """The request, ready for boto3. code_uri: the S3 folder that launch.upload_code filled.

    Raises InvalidField where the order names no image and there is no default one.
    """
    request: dict[str, Any] = {
        "TrainingJobName": order.name,
        "RoleArn": order.role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": image_of(order),
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["/bin/bash", "-c"],
            "ContainerArguments": [LAUNCH],
        },
        "InputDataConfig": _channels(order, code_uri),
        "OutputDataConfig": {"S3OutputPath": order.output_uri, "CompressionType": "NONE"},
        "CheckpointConfig": {"S3Uri": order.checkpoint_uri, "LocalPath": CHECKPOINTS},
        "ResourceConfig": {
            "InstanceType": sagemaker_type(order),
            "InstanceCount": order.num_instances,
            "VolumeSizeInGB": VOLUME_GIB,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": order.max_runtime_s},
        "HyperParameters": _hyperparameters(order),
        "Environment": _environment(order),
        # Its rules would use up the quota of processing jobs.
        "ProfilerConfig": {"DisableProfiler": True},
        "RetryStrategy": {"MaximumRetryAttempts": RETRIES},
        "EnableNetworkIsolation": False,
        "Tags": [{"Key": key, "Value": value} for key, value in tags_of(order).items()],
    }
    if order.training_plan_arn is not None:
        request["ResourceConfig"]["TrainingPlanArn"] = order.training_plan_arn
        request["StoppingCondition"]["MaxPendingTimeInSeconds"] = PENDING_S
    if order.subnets:
        request["VpcConfig"] = {
            "Subnets": list(order.subnets),
            "SecurityGroupIds": list(order.security_group_ids),
        }
    return request


def image_of(order: JobOrder) -> str:
    """The order's image, or the default one of its region. Raises InvalidField."""
    return order.image_uri or image_for(order.region or "", order.instance_type)


def sagemaker_type(order: JobOrder) -> str:
    """The instance type as SageMaker writes it: with ml. in front."""
    return f"ml.{order.instance_type.removeprefix('ml.')}"


def tags_of(order: JobOrder) -> dict[str, str]:
    """The order's tags, and the one that says whose job it is."""
    return {**order.tags, TAG: order.name}


def report_prefix(order: JobOrder) -> str:
    """The S3 folder where metrics.jsonl and result.json of a job arrive while it runs."""
    return f"{order.checkpoint_uri.rstrip('/')}/report-{order.name}/"


def _channels(order: JobOrder, code_uri: str) -> list[dict[str, Any]]:
    # What is small and read often is copied once; the data is read as it is needed.
    channels = [_s3_channel("code", code_uri, "File")]
    found = _FSX.fullmatch(order.data_uri)
    if found:
        files = {
            "FileSystemId": found["id"],
            "FileSystemType": "FSxLustre",
            "FileSystemAccessMode": "ro",
            "DirectoryPath": found["path"],
        }
        channels.append({"ChannelName": "train", "DataSource": {"FileSystemDataSource": files}})
    elif order.data_uri != "synthetic":
        channels.append(_s3_channel("train", order.data_uri, "FastFile"))
    return channels


def _s3_channel(name: str, uri: str, mode: str) -> dict[str, Any]:
    source = {
        "S3DataType": "S3Prefix",
        # A prefix without a slash would take in every folder whose name begins like this one.
        "S3Uri": uri if uri.endswith("/") else f"{uri}/",
        "S3DataDistributionType": "FullyReplicated",
    }
    return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": source}}


def _hyperparameters(order: JobOrder) -> dict[str, str]:
    """The trainer's settings with the folders of the container."""
    # The API, like the trainer, takes "none" for a setting that is empty; some tools drop "".
    given = {key: value or "none" for key, value in order.hyperparameters.items()}
    return {
        **given,
        "data": order.data_uri if order.data_uri == "synthetic" else DATA,
        "checkpoint_dir": f"{CHECKPOINTS}/state",
        # Beside the checkpoints, because only this folder is copied to S3 while a job runs.
        "output_dir": f"{CHECKPOINTS}/report-{order.name}",
    }


def _environment(order: JobOrder) -> dict[str, str]:
    """What NCCL needs between instances; the order's own words win."""
    found = {"NCCL_DEBUG": "WARN"}
    if order.num_instances > 1 and _EFA.fullmatch(order.instance_type.removeprefix("ml.")):
        found = {
            "FI_PROVIDER": "efa",
            "FI_EFA_USE_DEVICE_RDMA": "1",
            "FI_EFA_FORK_SAFE": "1",
            # Says in the log whether it is EFA or plain sockets that the run uses.
            "NCCL_DEBUG": "INFO",
        }
    return {**found, **order.environment}

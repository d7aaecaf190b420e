"""Schemas of jobs: what clients may send to POST /jobs and to POST /jobs/preview."""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from app.schemas import WHOLE, ShortText, Strict

# CreateTrainingJob takes up to 28 days (AWS SageMaker developer guide, StoppingCondition).
MAX_RUNTIME_HOURS = 28 * 24
MAX_CANDIDATE = 20
# What the API of SageMaker allows: botocore's service model of 2017-07-24.
MAX_ENVIRONMENT, MAX_TAGS = 90, 40
_ARN = r"arn:aws[a-z-]*"
_PLAN_ARN = rf"{_ARN}:sagemaker:[a-z0-9-]+:[0-9]{{12}}:training-plan/[a-zA-Z0-9](-*[a-zA-Z0-9])*"
_ROLE_ARN = rf"{_ARN}:iam::[0-9]{{12}}:role/[a-zA-Z_0-9+=,.@/-]+"
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,254}")
S3_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?")
FSX_ADDRESS = re.compile(r"fsx://fs-[0-9a-f]{8,40}/[^\s]*")
# A job's environment is shown by consoles and kept in the database: no place for secrets.
_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL|PRIVATE|(^|_)KEY", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"hooks\.slack|AKIA[A-Z0-9]{16}|ASIA[A-Z0-9]{16}|xox[a-z]-|hf_[A-Za-z0-9]{20}"
)
# Libraries that are asked for threads and transports; others could load code into the run.
LOCAL_ENVIRONMENT = ("OMP_", "MKL_", "NCCL_", "GLOO_", "CUDA_VISIBLE_DEVICES")
_NAME = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,255}$")]
_VALUE = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00]*$")]
_TAG_KEY = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 _.:/=+@-]{1,128}$")]
_TAG_VALUE = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 _.:/=+@-]{0,256}$")]


class Vpc(Strict):
    """Where a job's network interfaces are."""

    subnets: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[-0-9a-zA-Z]{1,32}$")]],
        Field(min_length=1, max_length=16),
    ]
    security_group_ids: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[-0-9a-zA-Z]{1,32}$")]],
        Field(min_length=1, max_length=5),
    ]


class JobRequest(Strict):
    """A job: a stored recommendation, a candidate in it, and where it is to run."""

    recommendation_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]
    candidate: Annotated[int, Field(ge=0, le=MAX_CANDIDATE), WHOLE] = 0
    kind: Literal["train", "probe"] = "train"
    backend: Literal["sagemaker", "local"] = "local"
    training_plan_arn: Annotated[str, StringConstraints(max_length=2048)] | None = None
    role_arn: Annotated[str, StringConstraints(max_length=2048)] | None = None
    image_uri: Annotated[str, StringConstraints(max_length=255)] | None = None
    data: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = "synthetic"
    output_s3_uri: Annotated[str, StringConstraints(max_length=1024)] | None = None
    checkpoint_s3_uri: Annotated[str, StringConstraints(max_length=1024)] | None = None
    max_runtime_hours: Annotated[float, Field(gt=0, le=MAX_RUNTIME_HOURS)] | None = None
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")] | None = None
    vpc: Vpc | None = None
    tags: Annotated[dict[_TAG_KEY, _TAG_VALUE], Field(max_length=MAX_TAGS, default_factory=dict)]
    environment: Annotated[
        dict[_NAME, _VALUE], Field(max_length=MAX_ENVIRONMENT, default_factory=dict)
    ]
    idempotency_key: ShortText | None = None

    @field_validator("training_plan_arn")
    @classmethod
    def _plan_arn(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(_PLAN_ARN, value):
            raise ValueError(
                "must be the ARN of a SageMaker training plan: "
                "arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME (no EC2 Capacity Block)"
            )
        return value

    @field_validator("role_arn")
    @classmethod
    def _role(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(_ROLE_ARN, value):
            raise ValueError("must be the ARN of an IAM role: arn:aws:iam::ACCOUNT:role/NAME")
        return value

    @field_validator("image_uri")
    @classmethod
    def _image(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE.fullmatch(value):
            raise ValueError("must be the address of an image, such as ACCOUNT.dkr.ecr.REGION…:TAG")
        return value

    @field_validator("output_s3_uri", "checkpoint_s3_uri")
    @classmethod
    def _s3(cls, value: str | None) -> str | None:
        if value is not None and not S3_ADDRESS.fullmatch(value):
            raise ValueError("must be an address in S3: s3://BUCKET/PREFIX")
        return value

    @field_validator("environment")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if _SECRET_NAME.search(name) or _SECRET_VALUE.search(text):
                raise ValueError(
                    f"{name} looks like a secret, which consoles and logs would show: let the "
                    "job's role read it from AWS Secrets Manager instead"
                )
        return value

    @field_validator("tags")
    @classmethod
    def _own_tags(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.lower().startswith(("aws:", "shardwise:")):
                raise ValueError(f"{name}: tags that begin with aws: or shardwise: are taken")
        return value

"""JobOrder: one training run, with everything that a backend needs to carry it out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """One training run, with everything that a backend needs to carry it out.

    name: unique and deterministic, at most 63 of [a-zA-Z0-9-]. kind: "train" or "probe".
    hyperparameters: flat strings for the trainer, without where it reads and writes, which only
    the backend knows. data_uri: s3://…, fsx://…, a folder for the local backend, or "synthetic".
    region: None is this machine. training_plan_arn: None runs on demand. max_runtime_s: after
    that the backend ends the job. predicted_s, predicted_interval_s: of the whole run, None for a
    probe. allow_on_demand: a job that lost its training plan may go on. resumes: the name of the
    job whose checkpoints this goes on from.
    """

    name: str
    kind: str
    hyperparameters: Mapping[str, str]
    num_parameters: int
    instance_type: str
    num_instances: int
    gpus_per_instance: int
    training_plan_arn: str | None = None
    role_arn: str | None = None
    image_uri: str | None = None
    data_uri: str
    output_uri: str
    checkpoint_uri: str
    max_runtime_s: int
    predicted_s: float | None = None
    predicted_interval_s: tuple[float, float] | None = None
    allow_on_demand: bool = False
    region: str | None = None
    subnets: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    resumes: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values, which from_json reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "JobOrder":
        """The order that as_json wrote."""
        lists = ("subnets", "security_group_ids", "predicted_interval_s")
        tuples = {name: tuple(values[name]) for name in lists if values[name] is not None}
        return cls(**{**values, **tuples})

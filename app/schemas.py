"""Schemas: what clients may send. Strict: no unknown fields, no booleans as numbers, no NaN."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_serializer,
    model_validator,
)

from advisor.model_catalog import MAX_NAME
from advisor.plan import Checkpointing, GradientSync, Optimizer, Precision
from advisor.result import MAX_FIELD_CHARS
from advisor.workload import (
    MAX_GLOBAL_BATCH_TOKENS,
    MAX_HOURS,
    MAX_INSTANCES,
    MAX_SEQ_LEN,
    MAX_TOKENS,
    MAX_USD,
    Objective,
    PricingKind,
    Sharding,
    Training,
)

MAX_MICRO_BATCH = 1024
MAX_INSTANCE_NAMES = 40
MAX_UPLOAD = 5_000
# Floats are whole numbers exactly up to here.
_EXACT = 2**53


def _whole(value: object) -> object:
    """2e9 is a whole number to people, and a float in JSON."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


# Outermost, so that limits are checked on what is a whole number by then.
WHOLE = BeforeValidator(_whole)
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_FIELD_CHARS)]
ShortText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Strict(BaseModel):
    """What all schemas share."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, frozen=True, protected_namespaces=()
    )


class ModelChoice(Strict):
    """The model to train: exactly one of a size, a catalogue name and a config.json."""

    size_b: (
        Annotated[float, Field(gt=0, le=1e6, description="billions of parameters, 0.1 to 72")]
        | None
    ) = None
    name: (
        Annotated[
            str,
            StringConstraints(min_length=1, max_length=MAX_NAME),
            Field(description="a name or Hugging Face id in GET /catalog/models"),
        ]
        | None
    ) = None
    config: Annotated[
        dict[str, Any] | None, Field(description="a parsed Hugging Face config.json")
    ] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [key for key in ("size_b", "name", "config") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                "give exactly one of size_b, name and config"
                + (f", not {' and '.join(given)}" if given else "")
            )
        return self


class Pricing(Strict):
    """How instances are paid for: a word, or your own rate as {"usd_per_instance_hour": 30}."""

    kind: PricingKind = "custom"
    usd_per_instance_hour: Annotated[float, Field(gt=0, le=1e6)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_rate(self) -> Self:
        if self.kind == "custom" and self.usd_per_instance_hour is None:
            raise ValueError("your own price needs usd_per_instance_hour")
        if self.kind == "spot" and self.usd_per_instance_hour is not None:
            raise ValueError("your own rate is no spot price; leave kind out")
        return self

    @model_serializer
    def _as_sent(self) -> str | dict[str, Any]:
        if self.usd_per_instance_hour is None:
            return self.kind
        rate = {"usd_per_instance_hour": self.usd_per_instance_hour}
        return rate if self.kind == "custom" else {"kind": self.kind, **rate}


class RecommendRequest(Strict):
    """A question. Only `model` is required; what is left out follows stated rules."""

    model: ModelChoice
    num_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] | None = None
    seq_len: Annotated[int, Field(ge=1, le=MAX_SEQ_LEN), WHOLE] | None = None
    global_batch_tokens: Annotated[int, Field(ge=1, le=MAX_GLOBAL_BATCH_TOKENS), WHOLE] | None = (
        None
    )
    training: Training = "pretrain"
    budget_usd: Annotated[float, Field(gt=0, le=MAX_USD)] | None = None
    deadline_hours: Annotated[float, Field(gt=0, le=MAX_HOURS)] | None = None
    objective: Objective | None = None
    instances: (
        Annotated[list[ShortText], Field(min_length=1, max_length=MAX_INSTANCE_NAMES)] | None
    ) = None
    min_instances: Annotated[int, Field(ge=1, le=MAX_INSTANCES), WHOLE] | None = None
    max_instances: Annotated[int, Field(ge=1, le=MAX_INSTANCES), WHOLE] = MAX_INSTANCES
    pricing: Pricing = Pricing(kind="training_plan")
    region: ShortText | None = None
    max_oom_probability: Annotated[float, Field(gt=0, lt=1)] = 0.02
    precision: Precision | None = None
    activation_checkpointing: Checkpointing | None = None
    micro_batch: Annotated[int, Field(ge=1, le=MAX_MICRO_BATCH), WHOLE] | None = None
    optimizer: Optimizer | None = None
    sharding: Sharding | None = None
    compile: bool | None = None
    loss_chunking: bool | None = None
    reshard_after_forward: bool | None = None
    gradient_sync: GradientSync | None = None
    calibration_version: (
        Annotated[
            str,
            StringConstraints(pattern=r"^[0-9a-f]{12}$"),
            Field(description="a stored calibration, to repeat the answer that it gave"),
        ]
        | None
    ) = None


Count = Annotated[int, Field(gt=0, lt=10**12), WHOLE] | None
Measure = Annotated[float, Field(gt=0, lt=1e15)] | None


class ResultRow(Strict):
    """One measurement of the user's own. `id` and `source_url` say which and where from."""

    id: Annotated[ShortText, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    source_url: Annotated[Text, Field(min_length=1)]
    source_repo_path: Text | None = None
    commit_or_date: Text | None = None
    framework: Text | None = None
    gpu: Text | None = None
    gpus_total: Count = None
    nodes: Count = None
    model_name: Text | None = None
    params_b: Measure = None
    hidden: Count = None
    layers: Count = None
    heads: Count = None
    kv_heads: Count = None
    ffn: Count = None
    vocab: Count = None
    mlp_type: Text | None = None
    tied_embeddings: bool | None = None
    seq_len: Count = None
    micro_batch_per_gpu: Measure = None
    grad_accum: Count = None
    global_batch_seqs: Measure = None
    param_dtype: Text | None = None
    compute_dtype: Text | None = None
    optimizer: Text | None = None
    activation_checkpointing: Literal["none", "selective", "full", "unknown"] | None = None
    sharding: Literal["full", "shard_grad_op", "hybrid", "none"] | None = None
    cpu_offload: bool | None = None
    compile: bool | None = None
    flash_attention: bool | None = None
    tokens_per_s_per_gpu: Measure = None
    mfu_pct: Measure = None
    tflops_per_gpu: Measure = None
    peak_mem_gib: Measure = None
    peak_mem_kind: Literal["reserved", "allocated", "active", "unknown"] | None = None
    oom: bool = False
    notes: Text | None = None


class ResultUpload(Strict):
    """Measurements of the user's own, and who measured them."""

    rows: Annotated[list[ResultRow], Field(min_length=1, max_length=MAX_UPLOAD)]
    uploaded_by: ShortText | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_rows(cls, value: object) -> object:
        """One row, or a list of rows, may also be sent as it is."""
        if isinstance(value, list):
            return {"rows": value}
        if isinstance(value, dict) and "rows" not in value:
            rest = {key: each for key, each in value.items() if key != "uploaded_by"}
            who = {key: value[key] for key in ("uploaded_by",) if key in value}
            return {"rows": [rest], **who}
        return value

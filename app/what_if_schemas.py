"""What-if schemas: what clients may send to POST /sweep and POST /compare. Strict, as all are."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from advisor.plan import Checkpointing, Optimizer, Precision
from advisor.workload import MAX_INSTANCES, MAX_SEQ_LEN, MAX_TOKENS, Sharding
from app.schemas import MAX_MICRO_BATCH, WHOLE, ModelChoice, Pricing, ShortText, Strict

MAX_STEPS = 4096
MAX_LOSS_CHUNKS = 64
MicroBatch = Annotated[int, Field(ge=1, le=MAX_MICRO_BATCH), WHOLE]
SeqLen = Annotated[int, Field(ge=1, le=MAX_SEQ_LEN), WHOLE]
NumInstances = Annotated[int, Field(ge=1, le=MAX_INSTANCES), WHOLE]
LossChunks = Annotated[int, Field(ge=1, le=MAX_LOSS_CHUNKS), WHOLE]
Chance = Annotated[float, Field(gt=0, lt=1)]


# JSON has lists; a strict tuple would refuse them.
AS_TUPLE = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)


class Fixed(Strict):
    """Settings that all plans of a sweep, or one plan of a comparison, have."""

    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    sharding: Sharding = "full"
    loss_chunks: LossChunks = 1
    compile: bool = True
    reshard_after_forward: bool = True
    accumulation_steps: Annotated[int, Field(ge=1, le=MAX_STEPS), WHOLE] = 1


class SweepRequest(Strict):
    """A grid of micro batches and checkpointing modes on one instance type."""

    model: ModelChoice
    instance_type: ShortText = "p6-b200.48xlarge"
    num_instances: NumInstances = 1
    seq_len: SeqLen | None = None
    micro_batches: Annotated[
        tuple[MicroBatch, ...], Field(min_length=1, max_length=16), AS_TUPLE
    ] = (1, 2, 4, 8, 16)
    activation_checkpointing: Annotated[
        tuple[Checkpointing, ...], Field(min_length=1, max_length=3), AS_TUPLE
    ] = ("none", "selective", "full")
    settings: Fixed = Fixed()
    max_oom_probability: Chance = 0.02


class Current(Strict):
    """The cluster and the settings of today, and how fast they are, if that is measured."""

    instance_type: ShortText
    num_instances: NumInstances = 1
    micro_batch: MicroBatch
    activation_checkpointing: Checkpointing = "none"
    settings: Fixed = Fixed()
    measured_tokens_per_s: Annotated[float, Field(gt=0, lt=1e12)] | None = None


class CompareRequest(Strict):
    """Today's cluster against one P6-B200 node, and against the best that is found."""

    model: ModelChoice
    current: Current
    num_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] | None = None
    seq_len: SeqLen | None = None
    pricing: Pricing = Pricing(kind="training_plan")
    region: ShortText | None = None
    max_instances: NumInstances = MAX_INSTANCES
    max_oom_probability: Chance = 0.02

"""A plan as the flat strings that the training program reads (SageMaker hyperparameters)."""

from dataclasses import fields

from advisor.model import ModelShape
from advisor.plan import Plan

# Where the plan runs is the launcher's business, not the program's.
_NOT_THE_TRAINERS = ("instance_type", "num_instances", "gpus_per_instance")
_NOT_DIMENSIONS = ("name", "family")
# Given only where they are not plain: the program does not know all of them, and refuses by name.
_UNUSUAL = (
    *("num_windowed_layers", "norm_layout", "parallel_block", "qk_norm_kind", "final_norm"),
    *("embedding_norm", "head_bias", "extra_positions", "embedding_size", "activation_parameters"),
    *("rotary_fraction", "rope_scaling", "norm_eps", "embedding_scale", "attention_scale"),
    *("residual_scale", "logit_scale", "logit_softcap", "attn_softcap", "num_unrotated_layers"),
)


def hyperparameters(shape: ModelShape, plan: Plan, *, num_tokens: int) -> dict[str, str]:
    """Every setting of the model and the plan as strings: `--key value` for the trainer."""
    model = {
        field.name: _text(getattr(shape, field.name))
        for field in fields(shape)
        if field.name not in _NOT_DIMENSIONS
        and not (field.name in _UNUSUAL and getattr(shape, field.name) == field.default)
    }
    settings = {
        field.name: _text(getattr(plan, field.name))
        for field in fields(plan)
        if field.name not in _NOT_THE_TRAINERS
    }
    return {**model, **settings, "num_tokens": str(num_tokens)}


def _text(value: object) -> str:
    """A setting as text: true and false in lower case, nothing for None."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The compute format of the blocks' linear layers; weights stay fp32 and sharded.

bf16 and fp32 are FSDP's mixed precision. fp8 is torchao's float8 training, mxfp8 its block format;
nvfp4 is TransformerEngine's. The embedding, the norms, attention's own products and the head stay
bf16.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from trainer.errors import Unsupported
from trainer.settings import PlanSettings

# Both sides of a product are multiples of this: cuBLAS for fp8, the scale blocks of the others.
_MULTIPLE = {"fp8": 16, "mxfp8": 32, "nvfp4": 32}


class MxLinear(nn.Linear):
    """Linear layer whose three products are in MXFP8."""

    emulate = False

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name that nn.Linear gave it
        """As nn.Linear."""
        out: Tensor = _mxfp8_product(input, self.weight, emulate=self.emulate)
        return out if self.bias is None else out + self.bias


def _mxfp8_product(x: Tensor, weight: Tensor, *, emulate: bool) -> Tensor:
    product = import_module("torchao.prototype.moe_training.mxfp8_linear")
    formats = import_module("torchao.prototype.mx_formats.config")
    kernels = import_module("torchao.quantization.quantize_.common.kernel_preference")
    kernel = kernels.KernelPreference.EMULATED if emulate else kernels.KernelPreference.AUTO
    out: Tensor = product._to_mxfp8_then_scaled_mm(
        x, weight, kernel, formats.ScaleCalculationMode.RCEIL
    )
    return out


def apply_precision(blocks: nn.Module, plan: PlanSettings) -> None:
    """Replace the blocks' linear layers in place by those of the plan's precision."""
    if plan.precision == "fp8":
        _to_float8(blocks, plan)
    elif plan.precision == "mxfp8":
        _replace(blocks, _MULTIPLE["mxfp8"], lambda layer: _to_mx(layer, plan))
    elif plan.precision == "nvfp4":
        _to_nvfp4(blocks)


def _fits(layer: nn.Module, multiple: int) -> bool:
    if not isinstance(layer, nn.Linear):
        return False
    return layer.in_features % multiple == 0 and layer.out_features % multiple == 0


def _to_float8(blocks: nn.Module, plan: PlanSettings) -> None:
    float8 = import_module("torchao.float8")
    emulate = plan.low_precision_emulation
    if plan.fp8_recipe == "tensorwise":
        config = float8.Float8LinearConfig(
            enable_fsdp_float8_all_gather=plan.fp8_gather, emulate=emulate
        )
    elif plan.fp8_gather:
        raise Unsupported("fp8_gather is for fp8_recipe tensorwise: a row's scale needs the row")
    else:
        recipe = float8.Float8LinearConfig.from_recipe_name(plan.fp8_recipe)
        config = replace(recipe, emulate=emulate)
    float8.convert_to_float8_training(
        blocks, config=config, module_filter_fn=lambda layer, _: _fits(layer, _MULTIPLE["fp8"])
    )


def _to_mx(layer: nn.Linear, plan: PlanSettings) -> None:
    layer.__class__ = MxLinear
    layer.emulate = plan.low_precision_emulation  # type: ignore[assignment]  # a bool attribute


def _to_nvfp4(blocks: nn.Module) -> None:
    try:
        engine = import_module("transformer_engine.pytorch")
        recipes = import_module("transformer_engine.common.recipe")
    except ImportError as error:
        raise Unsupported(f"precision nvfp4 needs transformer-engine: {error}") from error
    use_transformer_engine(blocks, engine, recipes)


def use_transformer_engine(blocks: nn.Module, engine: Any, recipes: Any) -> None:
    """Replace the fitting linear layers by TransformerEngine's, in NVFP4, under the same names.

    engine, recipes: its modules `pytorch` and `common.recipe`. Raises Unsupported where this
    version has no NVFP4.
    """
    if not hasattr(recipes, "NVFP4BlockScaling"):
        raise Unsupported("this transformer-engine has no NVFP4BlockScaling: install a newer one")
    recipe = recipes.NVFP4BlockScaling()
    # Renamed by TransformerEngine; both names mean the same.
    within = getattr(engine, "autocast", None)
    context = (
        partial(within, enabled=True, recipe=recipe)
        if within is not None
        else partial(engine.fp8_autocast, enabled=True, fp8_recipe=recipe)
    )

    class Nvfp4Linear(engine.Linear):  # type: ignore[misc]  # the package may not be installed
        """TransformerEngine's layer, which computes in NVFP4 within its context."""

        def forward(self, *inputs: Any, **options: Any) -> Any:
            with context():
                return super().forward(*inputs, **options)

    for parent in list(blocks.modules()):
        for name, layer in list(parent.named_children()):
            if _fits(layer, _MULTIPLE["nvfp4"]):
                new = Nvfp4Linear(
                    layer.in_features,
                    layer.out_features,
                    bias=layer.bias is not None,
                    params_dtype=layer.weight.dtype,
                    device=layer.weight.device,
                )
                setattr(parent, name, new)


def _replace(blocks: nn.Module, multiple: int, change: Callable[[Any], None]) -> None:
    for layer in blocks.modules():
        if _fits(layer, multiple):
            change(layer)

"""The compute format of the blocks' linear layers; weights stay fp32 and sharded.

bf16 and fp32 are FSDP's mixed precision. fp8 is torchao's float8 training, mxfp8 and nvfp4 its
block formats. The embedding, the norms, attention's own products and the head stay bf16.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from trainer.errors import Unsupported
from trainer.settings import PlanSettings

# What the tensor cores of a compute capability can multiply: NVIDIA's CUDA programming guide.
_NEEDS: dict[str, tuple[int, int]] = {
    "bf16": (8, 0),
    "fp8": (8, 9),
    "mxfp8": (10, 0),
    "nvfp4": (10, 0),
}
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


def check_precision(plan: PlanSettings, device: torch.device) -> None:
    """Raise Unsupported, by name, where hardware or packages cannot obey."""
    precision = plan.precision
    if precision in ("fp8", "mxfp8", "nvfp4"):
        _check_torchao(precision)
    if plan.low_precision_emulation and precision in ("fp8", "mxfp8"):
        return
    if device.type == "cpu":
        if precision not in ("bf16", "fp32"):
            raise Unsupported(f"precision {precision} needs a CUDA GPU; this is a CPU")
        return
    capability = torch.cuda.get_device_capability(device)
    check_build(capability, torch.cuda.get_arch_list(), torch.cuda.get_device_name(device))
    needed = _NEEDS.get(precision, (0, 0))
    if capability < needed:
        raise Unsupported(
            f"precision {precision} needs compute capability {needed[0]}.{needed[1]}; "
            f"{torch.cuda.get_device_name(device)} has {capability[0]}.{capability[1]}"
        )


def _check_torchao(precision: str) -> None:
    try:
        import_module("torchao")
    except ImportError as error:
        raise Unsupported(f"precision {precision} needs torchao: {error}") from error


def check_build(capability: tuple[int, int], built_for: list[str], name: str) -> None:
    """Raise Unsupported where torch has no code for a GPU of this compute capability.

    Code of sm_XY runs on X.Z with Z ≥ Y, that of sm_XYa on X.Y alone; compute_XY (PTX) on X.Y and
    anything newer (NVIDIA, CUDA C++ programming guide, "Compute capabilities").
    """
    if not any(_runs_on(capability, arch) for arch in built_for):
        raise Unsupported(
            f"this build of torch has no code for {name} "
            f"(sm_{capability[0]}{capability[1]}); it has {', '.join(built_for)}"
        )


def _runs_on(capability: tuple[int, int], arch: str) -> bool:
    kind, _, digits = arch.partition("_")
    number = digits.rstrip("af")
    if not number.isdigit():
        return False
    made_for = (int(number[:-1]), int(number[-1]))
    if digits.endswith("a"):
        return made_for == capability
    if kind == "compute":
        return made_for <= capability
    return made_for[0] == capability[0] and made_for[1] <= capability[1]


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
    else:
        if emulate or plan.fp8_gather:
            raise Unsupported("fp8_gather and emulation are for fp8_recipe tensorwise")
        config = float8.Float8LinearConfig.from_recipe_name(plan.fp8_recipe)
    float8.convert_to_float8_training(
        blocks, config=config, module_filter_fn=lambda layer, _: _fits(layer, _MULTIPLE["fp8"])
    )


def _to_mx(layer: nn.Linear, plan: PlanSettings) -> None:
    layer.__class__ = MxLinear
    layer.emulate = plan.low_precision_emulation  # type: ignore[assignment]  # a bool attribute


def _to_nvfp4(blocks: nn.Module) -> None:
    nvfp4 = import_module("torchao.prototype.moe_training.nvfp4_training.nvfp4_training")
    import_module("torchao.quantization").quantize_(
        blocks,
        nvfp4.NVFP4TrainingConfig(),
        filter_fn=lambda layer, _: _fits(layer, _MULTIPLE["nvfp4"]),
    )


def _replace(blocks: nn.Module, multiple: int, change: Callable[[Any], None]) -> None:
    for layer in blocks.modules():
        if _fits(layer, multiple):
            change(layer)

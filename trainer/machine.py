"""What this machine and its software are, and which settings they cannot obey.

Checked before the processes meet and before any weight is made, so that a reservation's time is
not spent on a run that cannot be.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from trainer.errors import Unsupported
from trainer.settings import PlanSettings

# What the tensor cores of a compute capability can multiply: NVIDIA's CUDA programming guide.
_NEEDS: dict[str, tuple[int, int]] = {
    "bf16": (8, 0),
    "fp8": (8, 9),
    "mxfp8": (10, 0),
    "nvfp4": (10, 0),
}
_PACKAGE = {"fp8": "torchao", "mxfp8": "torchao", "nvfp4": "transformer-engine"}
# Of torchao's float8 training as this program calls it; pyproject.toml asks for the same.
_OLDEST = {"torchao": (0, 13)}
_EMULATED = ("fp8", "mxfp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What decides whether a plan can run here.

    gpu, capability: of the GPU that this process uses; None on a CPU. built_for: torch's list of
    GPU architectures. packages: version by name, None where it is not installed. has_hidden_gpus:
    NVIDIA GPUs are there and torch cannot use them.
    """

    gpu: str | None
    capability: tuple[int, int] | None
    built_for: tuple[str, ...]
    packages: Mapping[str, str | None]
    torch_version: str
    has_hidden_gpus: bool = False


def own_device(environment: Mapping[str, str]) -> torch.device:
    """The GPU of this process, or the CPU where there is none."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(environment.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def this_machine(device: torch.device) -> Machine:
    """The description of the machine that this process runs on."""
    on_gpu = device.type == "cuda"
    # An empty list of devices is a wish for the CPU.
    asked_for_cpu = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return Machine(
        gpu=torch.cuda.get_device_name(device) if on_gpu else None,
        capability=torch.cuda.get_device_capability(device) if on_gpu else None,
        built_for=tuple(torch.cuda.get_arch_list()) if on_gpu else (),
        packages={name: _version(name) for name in sorted({*_PACKAGE.values()})},
        torch_version=torch.__version__,
        has_hidden_gpus=not on_gpu and not asked_for_cpu and Path("/dev/nvidia0").exists(),
    )


def check_machine(plan: PlanSettings, machine: Machine) -> None:
    """Raise Unsupported, by name, where hardware, torch's build or a package cannot obey."""
    if machine.has_hidden_gpus:
        raise Unsupported(
            f"this machine has NVIDIA GPUs that torch {machine.torch_version} cannot use: install "
            "a build of torch for its driver, or set CUDA_VISIBLE_DEVICES= to run on the CPU"
        )
    if machine.gpu is not None and machine.capability is not None:
        check_build(machine.capability, list(machine.built_for), machine.gpu)
    if plan.precision in _PACKAGE:
        _check_package(f"precision {plan.precision}", _PACKAGE[plan.precision], machine)
    if plan.optimizer == "adamw_8bit":
        _check_package("optimizer adamw_8bit", "torchao", machine)
    _check_capability(plan, machine)


def _check_capability(plan: PlanSettings, machine: Machine) -> None:
    precision = plan.precision
    if plan.low_precision_emulation and precision in _EMULATED:
        return
    if machine.capability is None:
        if precision not in ("bf16", "fp32"):
            raise Unsupported(f"precision {precision} needs a CUDA GPU; this is a CPU")
        return
    needed = _NEEDS.get(precision, (0, 0))
    if machine.capability < needed:
        raise Unsupported(
            f"precision {precision} needs compute capability {needed[0]}.{needed[1]}; "
            f"{machine.gpu} has {machine.capability[0]}.{machine.capability[1]}"
        )


def _check_package(what: str, package: str, machine: Machine) -> None:
    found = machine.packages.get(package)
    if found is None:
        raise Unsupported(f"{what} needs {package}, which is not installed")
    oldest = _OLDEST.get(package, (0,))
    if _numbers(found) < oldest:
        wanted = ".".join(map(str, oldest))
        raise Unsupported(f"{what} needs {package} {wanted} or newer; {found} is installed")


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: (0, 13, 1) of 0.13.1+cu126."""
    numbers = []
    for part in text.partition("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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

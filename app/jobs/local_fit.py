"""Fitting an order to this machine: the same training on fewer processes, each change named."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.jobs.local_machine import LocalMachine
from app.jobs.order import JobOrder
from app.jobs.progress import num_steps_of

# Without a GPU, two processes show the sharded program at work; more would share the same cores.
CPU_PROCESSES = 2
# Compute capability that a format needs: NVIDIA's CUDA programming guide; trainer.machine agrees.
NEEDED_CAPABILITY = {"fp8": (8, 9), "mxfp8": (10, 0), "nvfp4": (10, 0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Settings of the trainer for this machine, and how they differ from the order's."""

    num_processes: int
    settings: Mapping[str, str]
    changes: tuple[str, ...]

    @property
    def num_steps(self) -> int | None:
        """Optimizer steps that the trainer takes; None where the settings leave it open."""
        return num_steps_of(self.settings, self.num_processes)


def fit(order: JobOrder, machine: LocalMachine, *, max_processes: int) -> Fitted:
    """The order as this machine can run it. max_processes: 0 lets the machine decide."""
    wanted = order.num_instances * order.gpus_per_instance
    processes = min(wanted, max_processes or machine.num_gpus or CPU_PROCESSES)
    settings = dict(order.hyperparameters)
    changes = [
        f"runs on {machine.words} instead of {wanted} GPUs of "
        f"{order.num_instances} × {order.instance_type}"
    ]
    if processes < wanted:
        changes.append(f"{processes} process{'es' if processes > 1 else ''} instead of {wanted}")
        changes += _spread(settings, wanted, processes)
    changes += _precision(settings, machine)
    if not machine.num_gpus and settings.get("compile") == "true":
        settings["compile"] = "false"
        changes.append("not compiled: that costs minutes on a CPU and speeds up GPUs only")
    return Fitted(num_processes=processes, settings=settings, changes=tuple(changes))


def _spread(settings: dict[str, str], wanted: int, processes: int) -> list[str]:
    """Shards, replicas and accumulation for fewer processes; the tokens of a step where it can."""
    changes = []
    if settings.get("shard_degree") == "1":
        settings["replica_degree"] = str(processes)
    else:
        if settings.get("replica_degree", "1") != "1":
            changes.append("one copy of the model, split over all processes")
        settings.update(shard_degree=str(processes), replica_degree="1")
    steps = int(settings.get("accumulation_steps", "1"))
    if wanted % processes == 0:
        settings["accumulation_steps"] = str(steps * wanted // processes)
        changes.append(
            f"{settings['accumulation_steps']} micro steps in each step instead of {steps}, so "
            "that a step trains on the same tokens"
        )
    else:
        changes.append(f"a step trains on {processes}/{wanted} of the tokens")
    return changes


def _precision(settings: dict[str, str], machine: LocalMachine) -> list[str]:
    precision = settings.get("precision", "")
    if not machine.num_gpus and precision != "fp32":
        settings["precision"] = "fp32"
        return [f"fp32 instead of {precision}: most CPUs have no fast low-precision products"]
    needed = NEEDED_CAPABILITY.get(precision)
    if needed is None or (machine.compute_capability or (0, 0)) >= needed:
        return []
    settings["precision"] = "bf16"
    settings.pop("fp8_recipe", None)
    settings.pop("fp8_gather", None)
    return [f"bf16 instead of {precision}, which this machine cannot compute"]

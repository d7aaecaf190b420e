"""What a run reports: a progress line, metrics.jsonl, and result.json at the end."""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from trainer.config import Config
from trainer.errors import OutOfMemory
from trainer.stored_row import Measured, stored_row

# Forward and backward of one product: 2 + 4 operations per weight and token (Kaplan et al. 2020,
# arXiv:2001.08361, section 2.1); recomputation is not counted.
OPERATIONS_PER_WEIGHT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer update. loss: mean over the counted tokens; seconds: wall time."""

    number: int
    loss: float
    grad_norm: float
    learning_rate: float
    seconds: float
    tokens: int


def flops_per_token(config: Config, num_parameters: int) -> int:
    """Model FLOPs of one token's forward and backward.

    6 × the weights that multiply (all but a looked-up embedding) + 6 × layers × query width ×
    seq_len for attention's two products under a causal mask (half of the full 12).
    """
    model = config.model
    width = model.embedding_size or model.hidden_size
    looked_up = 0 if model.tied_embeddings else model.vocab_size * width
    if model.positions == "learned":
        looked_up += (model.max_position + model.extra_positions) * model.hidden_size
    attention = 6 * model.num_layers * model.num_heads * model.head_dim * config.plan.seq_len
    return OPERATIONS_PER_WEIGHT * (num_parameters - looked_up) + attention


def memory_of(device: torch.device) -> dict[str, int | None]:
    """Peaks of torch's CUDA allocator in bytes; None on a CPU, where nothing counts them."""
    if device.type != "cuda":
        return {
            "peak_allocated_bytes": None,
            "peak_reserved_bytes": None,
            "peak_active_bytes": None,
        }
    stats = torch.cuda.memory_stats(device)
    return {
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_active_bytes": stats["active_bytes.all.peak"],
    }


class Reporter:
    """Writes on the first rank; elsewhere it only remembers.

    `num_steps` is the last step's number plus one.
    """

    def __init__(
        self,
        config: Config,
        *,
        writes: bool,
        world_size: int,
        num_parameters: int,
        num_steps: int,
        num_nodes: int | None = None,
    ) -> None:
        self.config, self.world_size, self.num_steps = config, world_size, num_steps
        self.num_nodes = num_nodes
        self.num_parameters = num_parameters
        self.flops_per_token = flops_per_token(config, num_parameters)
        self.steps: list[Step] = []
        self._writes = writes
        self._folder = Path(config.run.output_dir)
        if writes:
            self._folder.mkdir(parents=True, exist_ok=True)

    def report(self, step: Step, device: torch.device) -> str | None:
        """Remember and write one step; the progress line where one is due."""
        self.steps.append(step)
        if not self._writes or step.number % self.config.run.log_every:
            return None
        memory = memory_of(device)
        speed = step.tokens / step.seconds / self.world_size
        row = {
            "step": step.number,
            "loss": step.loss,
            "grad_norm": step.grad_norm,
            "learning_rate": step.learning_rate,
            "step_s": step.seconds,
            "tokens_per_s_per_gpu": speed,
            "mfu_fraction": self._mfu(speed),
            **memory,
        }
        with (self._folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        left_s = statistics.median(s.seconds for s in self.steps[-20:])
        left_s *= self.num_steps - step.number - 1
        return _line(row, self.num_steps, left_s)

    def _mfu(self, tokens_per_s_per_gpu: float) -> float | None:
        peak = self.config.run.peak_flops_per_s
        return self.flops_per_token * tokens_per_s_per_gpu / peak if peak else None

    def result(self, device: torch.device, *, outcome: str, oom: bool = False) -> dict[str, Any]:
        """The measurement of this run, ready for result.json. oom: the memory was not enough."""
        skip = min(self.config.run.skip_steps, max(0, len(self.steps) - 1))
        steady = self.steps[skip:]
        seconds = [step.seconds for step in steady]
        tokens = sum(step.tokens for step in steady)
        speed = tokens / sum(seconds) / self.world_size if seconds else None
        memory = memory_of(device)
        gpu = gpu_name(device)
        found = Measured(
            kind="measured",
            world_size=self.world_size,
            num_nodes=self.num_nodes,
            num_parameters=self.num_parameters,
            gpu=gpu or "CPU",
            peak_bytes=None if oom else memory["peak_reserved_bytes"],
            tokens_per_s_per_gpu=None if oom else speed,
            mfu_fraction=self._mfu(speed) if speed and not oom else None,
            flops_per_token=self.flops_per_token,
            oom=oom,
            on_date=today(),
            remarks=(f"{len(steady)} steps after {skip} of warm-up", *remarks_on_software()),
        )
        return {
            "kind": found.kind,
            "outcome": outcome,
            "world_size": self.world_size,
            "gpu": gpu,
            "device": device.type,
            "num_parameters": self.num_parameters,
            **memory,
            "oom": oom,
            "tokens_per_s_per_gpu": speed,
            "tokens_per_s": speed * self.world_size if speed else None,
            "mfu_fraction": self._mfu(speed) if speed else None,
            "flops_per_token": self.flops_per_token,
            "flops_convention": "6 x multiplying weights + causal attention, no recomputation",
            "num_steps": len(self.steps),
            "num_steps_measured": len(steady),
            "num_warmup_steps_excluded": skip,
            "step_s": [step.seconds for step in self.steps],
            "step_s_median": statistics.median(seconds) if seconds else None,
            "step_s_spread": statistics.pstdev(seconds) if seconds else None,
            "loss_first": self.steps[0].loss if self.steps else None,
            "loss_last": self.steps[-1].loss if self.steps else None,
            "versions": versions(),
            "settings": self.config.as_strings(),
            "row": stored_row(self.config, found),
        }

    @contextmanager
    def naming_out_of_memory(self, device: torch.device) -> Iterator[None]:
        """What torch raises where memory is not enough, as OutOfMemory, with a result of it.

        The first rank writes it; ranks have equal work, so where one has too little, all have.
        """
        try:
            yield
        except torch.OutOfMemoryError as error:
            self.write_result(self.result(device, outcome="out of memory", oom=True))
            first = str(error).strip().partition("\n")[0]
            raise OutOfMemory(
                f"{first}; take a smaller micro_batch, more checkpointing, loss_chunks or GPUs"
            ) from error

    def write_result(self, result: Mapping[str, Any]) -> None:
        """result.json, complete or not at all."""
        if self._writes:
            partial = self._folder / "result.json.partial"
            partial.write_text(json.dumps(_finite(result), indent=2) + "\n", encoding="utf-8")
            partial.replace(self._folder / "result.json")


def gpu_name(device: torch.device) -> str | None:
    """As torch names it; None for a CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def today() -> str:
    """The date in UTC, as 2026-01-31."""
    return datetime.now(UTC).date().isoformat()


def remarks_on_software() -> tuple[str, ...]:
    """The versions that decide the numbers, for a row's notes."""
    return tuple(f"{name} {value}" for name, value in versions().items() if value)


def versions() -> dict[str, str | None]:
    """Of the software that decides the numbers; None where a package is not installed."""
    found: dict[str, str | None] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    for name in ("torchao", "transformer-engine"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _line(row: Mapping[str, Any], num_steps: int, left_s: float) -> str:
    parts = [
        f"step {row['step'] + 1}/{num_steps}",
        f"loss {row['loss']:.4f}",
        f"{row['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU",
    ]
    if row["mfu_fraction"] is not None:
        parts.append(f"MFU {row['mfu_fraction']:.1%}")
    if row["peak_reserved_bytes"] is not None:
        parts.append(f"reserved {row['peak_reserved_bytes'] / 1024**3:.1f} GiB")
    parts.append(f"{left_s:,.0f} s left")
    return "  ".join(parts)


def _finite(value: Any) -> Any:
    """JSON has no NaN: such numbers become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value

"""Checkpoints: asynchronous, marked complete last, readable on any number of GPUs.

A checkpoint is a folder step-00000012 with one file per rank and run.json. It is written as
step-00000012.partial and renamed when every rank has written, so a folder without that ending is
complete, whatever killed the run.
"""

import json
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from trainer.config import Config
from trainer.eight_bit import Incoming, is_eight_bit, stored_form
from trainer.errors import CheckpointError
from trainer.model import Model
from trainer.world import any_rank

_PARTIAL = ".partial"
# Settings that decide which tensors there are; all else may change between runs.
_SHAPE_OF_PLAN = ("optimizer",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """num_steps and num_samples done, num_tokens trained on."""

    num_steps: int = 0
    num_samples: int = 0
    num_tokens: int = 0


class Checkpoints:
    """The checkpoints of one run in one folder. Every rank calls every method."""

    def __init__(self, config: Config, *, is_first: bool) -> None:
        self._folder = Path(config.run.checkpoint_dir)
        self._keep = config.run.keep_checkpoints
        self._shape = _shape_of(config)
        self._is_first = is_first
        # The writing thread's own: its collectives must not mix with those of the training.
        self._group = dist.new_group(backend="gloo")
        self._pending: tuple[Future[Any], Path] | None = None
        if is_first:
            self._folder.mkdir(parents=True, exist_ok=True)
            for leftover in self._folder.glob(f"*{_PARTIAL}"):
                shutil.rmtree(leftover)
        dist.barrier()

    def save(self, model: Model, optimizer: Optimizer, progress: Progress) -> None:
        """Begin to write; returns when the state is copied. Finishes an earlier save first."""
        self.finish()
        target = self._folder / f"step-{progress.num_steps:08d}"
        if target.exists():
            return
        partial = target.with_name(target.name + _PARTIAL)
        state, states = get_state_dict(model, optimizer)
        try:
            future = async_save(
                {"model": _plain(state), "optimizer": _plain(states)},
                checkpoint_id=str(partial),
                process_group=self._group,
            )
            if self._is_first:
                partial.mkdir(parents=True, exist_ok=True)
                about = {"progress": asdict(progress), "shape": self._shape}
                (partial / "run.json").write_text(json.dumps(about, indent=2), encoding="utf-8")
        except (OSError, RuntimeError, CheckpointException) as error:
            raise CheckpointError(f"{target.name} cannot be written: {error}") from error
        self._pending = (_as_future(future), target)

    @property
    def is_written(self) -> bool:
        """Whether this rank's part of a begun save is written, so that finish() will not wait."""
        return self._pending is not None and self._pending[0].done()

    def finish(self) -> None:
        """Wait for a begun save, mark it complete, remove the oldest. Raises CheckpointError."""
        if self._pending is None:
            return
        future, target = self._pending
        self._pending = None
        failure: BaseException | None = future.exception()
        if any_rank(failure is not None):
            raise CheckpointError(
                f"{target.name} could not be written ({_cause(failure)}); "
                "earlier checkpoints are intact"
            ) from failure
        if self._is_first:
            target.with_name(target.name + _PARTIAL).rename(target)
            for old in complete_checkpoints(self._folder)[: -self._keep]:
                shutil.rmtree(old)
        dist.barrier()

    def find(self, resume: str) -> Path | None:
        """The checkpoint to go on from: the first rank decides. Raises CheckpointError."""
        found: list[Any] = [None]
        if self._is_first and resume == "auto":
            complete = complete_checkpoints(self._folder)
            found = [str(complete[-1]) if complete else None]
        elif resume not in ("auto", "never"):
            found = [resume]
        dist.broadcast_object_list(found)
        return Path(found[0]) if found[0] else None

    def load(self, path: Path, model: Model, optimizer: Optimizer) -> Progress:
        """Fill model and optimizer. Raises CheckpointError: incomplete, or of another shape."""
        about = _about(path)
        different = [
            f"{key} {about['shape'].get(key)!r} there, {value!r} here"
            for key, value in self._shape.items()
            if about["shape"].get(key) != value
        ]
        if different:
            raise CheckpointError(f"{path.name} is of another model: {'; '.join(different)}")
        state, states = get_state_dict(model, optimizer)
        try:
            # Plain tensors share their memory with those of the model, so these are filled too.
            incoming = Incoming(FileSystemReader(path).read_metadata().state_dict_metadata)
            targets = incoming.tree(states, ("optimizer",))
            plain = {"model": _plain(state), "optimizer": _plain(targets)}
            load(plain, checkpoint_id=str(path))
            incoming.fill()
        except (OSError, RuntimeError, CheckpointException) as error:
            raise CheckpointError(f"{path.name} cannot be read: {error}") from error
        set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=states)
        return Progress(**about["progress"])


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder, oldest first."""
    found = [path for path in folder.glob("step-*") if not path.name.endswith(_PARTIAL)]
    return sorted(path for path in found if (path / "run.json").is_file())


def _about(path: Path) -> Mapping[str, Any]:
    try:
        found: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is no complete checkpoint: {error}") from error
    return found


def _shape_of(config: Config) -> dict[str, str]:
    strings = config.as_strings()
    names = [*(asdict(config.model)), *_SHAPE_OF_PLAN]
    return {name: strings[name] for name in names}


def _plain(value: Any) -> Any:
    """A state without torchao's wrappers around 8-bit averages and weights gathered in fp8.

    The latter's inner tensor is the fp32 weight itself: it can be resumed in any precision.
    """
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if is_eight_bit(value):
        return stored_form(value)
    if isinstance(value, DTensor) and type(value.to_local()).__name__.startswith("WeightWith"):
        inner: Any = value.to_local()
        return DTensor.from_local(
            inner._tensor,
            value.device_mesh,
            value.placements,
            run_check=False,
            shape=value.shape,
            stride=value.stride(),
        )
    return value


def _cause(failure: BaseException | None) -> str:
    """Its last line: torch puts the whole trace of every rank in the message."""
    lines = str(failure).strip().splitlines() if failure is not None else []
    return lines[-1].strip() if lines else "another rank failed"


def _as_future(begun: Any) -> Future[Any]:
    """async_save answers a future, or an object that has two of them."""
    future: Future[Any] = getattr(begun, "upload_completion", begun)
    return future

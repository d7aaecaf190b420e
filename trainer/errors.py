"""What stops a run, as one tree. Each error names its subject and says how to mend it.

TrainerError
├── ConfigError       settings that are unknown, missing or contradict one another
├── Unsupported       what this machine, its software or this program cannot do
├── DataError         data that is missing, unreadable or does not fit the model
├── CheckpointError   a checkpoint that is missing, incomplete or of another model
├── NonFiniteLoss     the loss is not a finite number
├── Hang              a step did not come within the stated time
├── LostRank          another process of the run is gone
├── OutOfMemory       the GPU's memory is not enough for the settings
└── FileError         a file of the run cannot be read or written
"""

from collections.abc import Sequence


class TrainerError(Exception):
    """The run cannot go on. `exit_status` is the status that the process ends with."""

    exit_status = 1


class ConfigError(TrainerError):
    """Settings that cannot be obeyed; `problems` has one line for each."""

    exit_status = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Unsupported(TrainerError):
    """A setting that this hardware, these packages or this program cannot obey."""

    exit_status = 3


class DataError(TrainerError):
    """Data that is missing, unreadable, or does not fit the model."""

    exit_status = 4


class CheckpointError(TrainerError):
    """A checkpoint that is missing, incomplete, or of another model."""

    exit_status = 5


class NonFiniteLoss(TrainerError):
    """The loss is infinite or not a number; the state before this step was saved."""

    exit_status = 6


class Hang(TrainerError):
    """A step did not come within the stated time."""

    exit_status = 7


class LostRank(TrainerError):
    """Another process of the run is gone; the newest complete checkpoint is intact."""

    exit_status = 8


class OutOfMemory(TrainerError):
    """The GPU's memory is not enough; result.json says so, as evidence against the settings."""

    exit_status = 9


class FileError(TrainerError):
    """A file of the run cannot be read or written: a full disk, a missing right."""

    exit_status = 10

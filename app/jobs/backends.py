"""The backends of a service: this machine always, SageMaker where it is enabled."""

from collections.abc import Mapping
from pathlib import Path

from app.jobs.local_service import LocalService
from app.jobs.training_service import TrainingService
from app.settings import Settings


def backends_of(settings: Settings) -> Mapping[str, TrainingService]:
    """Each backend by its name."""
    local = LocalService(Path(settings.jobs_dir), max_processes=settings.local_processes)
    return {local.name: local}

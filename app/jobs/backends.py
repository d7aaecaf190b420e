"""The backends of a service: this machine always, SageMaker where it is enabled."""

from collections.abc import Mapping
from pathlib import Path

from advisor.catalog import load_catalog
from app.aws.clients import AwsClients
from app.aws.sagemaker_service import SagemakerService
from app.jobs.local_service import LocalService
from app.jobs.training_service import TrainingService
from app.settings import Settings


def backends_of(settings: Settings, clients: AwsClients | None) -> Mapping[str, TrainingService]:
    """Each backend by its name. clients: None where AWS is off."""
    local = LocalService(Path(settings.jobs_dir), max_processes=settings.local_processes)
    if clients is None:
        return {local.name: local}
    sagemaker = SagemakerService(clients, load_catalog())
    return {sagemaker.name: sagemaker, local.name: local}

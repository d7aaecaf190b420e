"""The catalogue as JSON: models, instance types and their prices, each with its source."""

from functools import cache
from typing import Any

from advisor.catalog import Catalog
from advisor.hardware import Instance
from advisor.model_catalog import load_models
from app.answer import model_json
from app.recommendations import catalog_model


@cache
def models_json() -> dict[str, Any]:
    """Every model of the catalogue in its order."""
    return {
        "models": [
            {**model_json(catalog_model(model)), "hf_id": model.hf_id, "notes": model.notes}
            for model in load_models().values()
        ]
    }


def instances_json(catalog: Catalog) -> dict[str, Any]:
    """Every instance type of the catalogue."""
    return {
        "catalog_version": catalog.version,
        "instances": [_instance_json(each, catalog) for each in catalog.instances.values()],
        "regions": list(catalog.regions()),
    }


def _instance_json(instance: Instance, catalog: Catalog) -> dict[str, Any]:
    gpu = instance.gpu
    return {
        "name": instance.name,
        "sagemaker_name": instance.sagemaker_name,
        "num_gpus": instance.num_gpus,
        "gpu": {
            "name": gpu.name,
            "architecture": gpu.architecture,
            "memory_bytes": gpu.memory_bytes,
            "usable_bytes": gpu.usable_bytes,
            "hbm_bytes_per_s": gpu.hbm_bytes_per_s,
            "peak_flops": dict(gpu.peak_flops),
            "source": gpu.source,
            "retrieved": gpu.retrieved,
        },
        "network_bytes_per_s": instance.network_bytes_per_s,
        "vcpus": instance.vcpus,
        "host_memory_bytes": instance.host_memory_bytes,
        "is_plan_eligible": instance.plan_eligible,
        "reservable_counts": list(instance.reservable_counts),
        "regions": list(instance.regions),
        "note": instance.note,
        "source": instance.source,
        "retrieved": instance.retrieved,
        "prices": [
            {
                "kind": price.kind,
                "regions": list(price.regions),
                "usd_per_instance_hour": float(price.usd_per_instance_hour),
                "note": price.note,
                "source": price.source,
                "retrieved": price.retrieved,
            }
            for price in catalog.prices
            if price.instance == instance.name
        ],
    }

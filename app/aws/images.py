"""The container image of a job that names none: AWS's own for PyTorch training."""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from advisor.errors import InvalidField

# Instance families with NVIDIA GPUs; others need other images.
_HAS_GPU = re.compile(r"(ml\.)?[pg]\d+[a-z]*[.-]")


def image_for(region: str, instance_type: str) -> str:
    """The address of AWS's deep-learning container of a region. Raises InvalidField.

    It is the error of the field image_uri when the region or the instance type has none.
    """
    if not _HAS_GPU.match(instance_type):
        raise InvalidField(
            "image_uri",
            f"there is no default image for {instance_type}: give image_uri, an image with "
            "PyTorch for it",
        )
    facts = _facts()
    account = _accounts().get(region)
    if account is None:
        raise InvalidField(
            "image_uri",
            f"AWS's image for PyTorch is in no registry of {region} that is known here: give "
            "image_uri, the address of an image in that region",
        )
    # The partition of China has a domain of its own (AWS General Reference, ECR endpoints).
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    image = facts["pytorch"]
    return f"{account}.dkr.ecr.{region}.{domain}/{image['repository']}:{image['tag']}"


@lru_cache(maxsize=1)
def _facts() -> Mapping[str, Any]:
    found: dict[str, Any] = tomllib.loads(
        (resources.files("app.aws") / "images.toml").read_text(encoding="utf-8")
    )
    return found


@lru_cache(maxsize=1)
def _accounts() -> Mapping[str, str]:
    """The account of the registry in each region."""
    by_account: Mapping[str, list[str]] = _facts()["registries"]
    return {region: account for account, regions in by_account.items() for region in regions}

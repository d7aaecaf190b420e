"""A process group of one process, for what needs one."""

from collections.abc import Iterator

import pytest

from trainer.world import World, joined


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """This process as the only one."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with joined() as world:
        yield world

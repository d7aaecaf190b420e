"""Server: what a test knows of the service that runs beside it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running service: its address, its process and its log."""

    url: str
    pid: int
    log: Path

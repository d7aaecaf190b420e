"""Server: what a test knows of the service that runs beside it."""

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

START_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running service: its address, its process and its log."""

    url: str
    pid: int
    log: Path


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return once the service answers. Raises AssertionError with its log when it does not."""
    give_up_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up_s and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
            return
        time.sleep(0.05)
    raise AssertionError(f"the service did not become ready:\n{log.read_text()}")

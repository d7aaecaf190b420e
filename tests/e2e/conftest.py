"""`shardwise serve` as a process of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import Server

START_LIMIT_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up_s and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
            return
        time.sleep(0.05)
    raise AssertionError(f"the service did not become ready:\n{log.read_text()}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service on a free port of this machine, with a database of its own."""
    folder = tmp_path_factory.mktemp("serve")
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = folder / "log"
    environment = {**os.environ, "SHARDWISE_DATABASE_URL": f"sqlite:///{folder}/shardwise.db"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", str(port)],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            wait_until_ready(url, process, log)
            yield Server(url=url, pid=process.pid, log=log)
        finally:
            process.terminate()
            process.wait(timeout=20)

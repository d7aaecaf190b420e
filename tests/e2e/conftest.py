"""`shardwise serve` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from running_server import Server, free_port, wait_until_ready


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

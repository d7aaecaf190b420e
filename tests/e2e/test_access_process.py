"""A service that others can reach, as a process: it starts only when that is safe."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

SECRET = "a-secret-of-a-test-with-more-than-32-characters"


def shardwise(folder: Path, *arguments: str, secret: str = SECRET) -> "subprocess.Popen[str]":
    """A command in a folder of its own."""
    environment = {**os.environ, "SHARDWISE_SECRET_KEY": secret}
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "app", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def test_it_starts_with_a_secret_and_a_key_and_answers_those_who_have_one(tmp_path: Path) -> None:
    serving = ("serve", "--host", "0.0.0.0", "--port")  # noqa: S104 - what the test is about
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for secret, said in (("", "SHARDWISE_SECRET_KEY"), (SECRET, "shardwise keys create")):
        with shardwise(tmp_path, *serving, port, secret=secret) as refused:
            assert refused.wait(60) == 2
        assert said in (tmp_path / "log").read_text().splitlines()[-1]
    with shardwise(tmp_path, "keys", "create", "ops", "--role", "admin") as made:
        key = made.communicate(timeout=60)[0].strip()
    with shardwise(tmp_path, *serving, port) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + 60
            while not is_up(url) and time.monotonic() < deadline:
                time.sleep(0.2)
            assert httpx.get(f"{url}/results").status_code == 401
            bearer = {"Authorization": f"Bearer {key}"}
            assert httpx.get(f"{url}/results", headers=bearer).status_code == 200
            entries = httpx.get(f"{url}/audit", headers=bearer).json()["entries"]
            assert [each["action"] for each in entries] == ["key.create"]
            with shardwise(tmp_path, "keys", "revoke", "ops") as revoked:
                assert revoked.wait(60) == 0
            assert httpx.get(f"{url}/results", headers=bearer).status_code == 401
        finally:
            process.terminate()
    secret_part = key.rpartition("_")[2]
    assert len(secret_part) == 64
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret_part.encode() not in path.read_bytes()


def is_up(url: str) -> bool:
    """Whether the service answers."""
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False

"""The whole loop: ask, start a job, train for real, store what was measured, tell Slack."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running_server import free_port, wait_until_ready

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
QUESTION = {
    "model": {"config": TINY},
    "num_tokens": 200_000,
    "seq_len": 128,
    "global_batch_tokens": 8192,
    "instances": ["p5en"],
}
LIMIT_S = 120.0


class Slack(http.server.ThreadingHTTPServer):
    """An incoming webhook on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Webhook)
        self.titles: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/services/T/B/x"


class _Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, Slack)
        self.server.titles.append(sent["text"])
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its interface
        del format, args


@pytest.fixture
def slack() -> Iterator[Slack]:
    server = Slack()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def serving(folder: Path, slack: Slack) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The service as its users start it, with everything it keeps in one folder."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {
        **os.environ,
        "SHARDWISE_DATABASE_URL": f"sqlite:///{folder}/shardwise.db",
        "SHARDWISE_JOBS_DIR": f"{folder}/jobs",
        "SHARDWISE_SLACK_TEST_URL": slack.url,
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", str(port)],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            wait_until_ready(url, process, folder / "log")
            yield url, process
        finally:
            process.terminate()
            process.wait(timeout=20)


def call(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data)
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def wait_for(url: str, *statuses: str) -> Any:
    give_up_s = time.monotonic() + LIMIT_S
    while (job := call(url))["status"] not in statuses:
        assert time.monotonic() < give_up_s, job
        time.sleep(0.3)
    return job


def test_from_a_question_to_a_stored_result(tmp_path: Path, slack: Slack) -> None:
    with serving(tmp_path, slack) as (url, _):
        answer = call(f"{url}/recommend", QUESTION)
        started = call(f"{url}/jobs", {"recommendation_id": answer["id"]})
        job = wait_for(f"{url}/jobs/{started['id']}", "completed", "failed")
        assert job["status"] == "completed", job["log_tail"]
        # Two processes instead of eight GPUs, as it says; and the loss has fallen.
        assert any("2 processes instead of 8" in change for change in job["changes"])
        assert job["result"]["world_size"] == 2
        assert job["result"]["loss_last"] < job["result"]["loss_first"]
        rows = call(f"{url}/results?source=shardwise-job")["results"]
        assert [row["id"] for row in rows] == [job["result_id"]]
        assert rows[0]["tokens_per_s_per_gpu"] == job["result"]["tokens_per_s_per_gpu"]
        give_up_s = time.monotonic() + 20
        while len(slack.titles) < 3 and time.monotonic() < give_up_s:
            time.sleep(0.1)
        assert [title.split()[1] for title in slack.titles] == [
            "Submitted:",
            "Started:",
            "Completed:",
        ]


def test_the_service_is_killed_while_a_job_runs(tmp_path: Path, slack: Slack) -> None:
    with serving(tmp_path, slack) as (url, process):
        answer = call(f"{url}/recommend", {**QUESTION, "num_tokens": 1_500_000})
        started = call(f"{url}/jobs", {"recommendation_id": answer["id"]})
        wait_for(f"{url}/jobs/{started['id']}", "running")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with serving(tmp_path, slack) as (url, _):
        job = wait_for(f"{url}/jobs/{started['id']}", "completed", "failed")
        assert job["status"] == "completed", job["log_tail"]
        assert call(f"{url}/jobs")["total"] == 1
        assert len(call(f"{url}/results?source=shardwise-job")["results"]) == 1
        # It went on by itself meanwhile: one run, whose steps have each number once.
        text = (tmp_path / "jobs" / job["name"] / "out" / "metrics.jsonl").read_text()
        steps = [json.loads(line)["step"] for line in text.splitlines()]
        assert steps == list(range(len(steps)))


def test_a_job_is_stopped_and_resumed(tmp_path: Path, slack: Slack) -> None:
    with serving(tmp_path, slack) as (url, _):
        answer = call(f"{url}/recommend", {**QUESTION, "num_tokens": 3_000_000})
        started = call(f"{url}/jobs", {"recommendation_id": answer["id"]})
        address = f"{url}/jobs/{started['id']}"
        give_up_s = time.monotonic() + LIMIT_S
        while not (call(address)["progress"] or {}).get("step"):
            assert time.monotonic() < give_up_s
            time.sleep(0.3)
        call(f"{address}/stop", {})
        stopped = wait_for(address, "stopped", "failed", "completed")
        assert stopped["status"] == "stopped", stopped
        resumed = call(f"{address}/resume", {})
        job = wait_for(f"{url}/jobs/{resumed['id']}", "completed", "failed")
        assert job["status"] == "completed", job["log_tail"]
        assert job["result"]["num_steps"] < job["progress"]["num_steps"]

"""The service as a process, over real sockets."""

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from running_server import Server

MAX_RSS_BYTES = 150 * 10**6
QUESTION = {"model": {"name": "llama-3.1-8b"}, "budget_usd": 20000}


def call(server: Server, path: str, body: Any = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data=data)
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process has no memory")


def test_a_question_is_answered_and_kept(server: Server) -> None:
    status, body = call(server, "/recommend", QUESTION)
    assert status == 200
    identity = json.loads(body)["id"]
    assert call(server, f"/recommendations/{identity}") == (200, body)


def test_wrong_questions_have_a_field(server: Server) -> None:
    status, body = call(server, "/recommend", {"model": {"name": "lama"}})
    assert status == 422
    assert json.loads(body)["field"] == "model.name"


def test_a_body_that_is_too_long_is_read_before_it_is_refused(server: Server) -> None:
    # A client that only sends and then reads would otherwise find its connection broken.
    status, body = call(server, "/recommend", {"model": {"name": "x" * 12_000_000}})
    assert status == 413
    assert json.loads(body)["error"] == "payload_too_large"


def test_many_clients_at_once_keep_the_process_small(server: Server) -> None:
    statuses: list[int] = []

    def ask(budget_usd: int) -> None:
        statuses.append(call(server, "/recommend", {**QUESTION, "budget_usd": budget_usd})[0])

    threads = [threading.Thread(target=ask, args=(1000 * (n + 1),)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 16
    if Path("/proc/self/status").exists():
        assert rss_bytes(server.pid) < MAX_RSS_BYTES


def test_each_request_is_one_line_of_json(server: Server) -> None:
    assert call(server, "/nowhere-in-the-log")[0] == 404
    give_up_s = time.monotonic() + 5
    lines: list[str] = []
    # The line is written when the answer is sent, which may be after it is read.
    while not lines and time.monotonic() < give_up_s:
        log = server.log.read_text().splitlines()
        lines = [line for line in log if "nowhere-in-the-log" in line]
    assert len(lines) == 1
    entry = json.loads(lines[0])
    assert (entry["status"], entry["method"]) == (404, "GET")
    assert entry["request_id"] != "-"


@pytest.mark.parametrize("path", ["/", "/results", "/openapi.json", "/static/style.css"])
def test_pages_are_served(server: Server, path: str) -> None:
    assert call(server, path)[0] == 200


def test_more_writers_than_threads_do_not_wait_for_each_other(server: Server) -> None:
    statuses: list[int] = []

    def send(number: int) -> None:
        row = {"id": f"many-{number}", "source_url": f"https://example.org/many/{number}"}
        statuses.append(call(server, "/results", row)[0])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 60

"""The service as users meet it: time to its first answer, time of a question, memory.

    python tests/benchmark/bench_service.py

Prints one JSON object. Exits with 1 when a limit is broken.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MAX_START_S = 2.0
MAX_RECOMMEND_P95_S = 0.050
MAX_RSS_BYTES = 150 * 10**6
STARTS, QUESTIONS, SKIPPED = 5, 100, 10


def start(folder: str) -> tuple[subprocess.Popen[bytes], str, float]:
    """A server with its database in `folder`; its address; seconds until it answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "SHARDWISE_DATABASE_URL": f"sqlite:///{folder}/bench.db"}
    started_s = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", str(port)],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    while True:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
        except (OSError, urllib.error.URLError):
            time.sleep(0.01)
        else:
            return server, url, time.perf_counter() - started_s


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and wait for it."""
    server.terminate()
    server.wait(timeout=20)


def ask(url: str, budget_usd: int) -> float:
    """Seconds of one question that has not been asked before."""
    body = json.dumps({"model": {"name": "llama-3.1-8b"}, "budget_usd": budget_usd}).encode()
    request = urllib.request.Request(f"{url}/recommend", data=body)
    request.add_header("Content-Type", "application/json")
    started_s = time.perf_counter()
    with urllib.request.urlopen(request, timeout=30) as response:
        response.read()
    return time.perf_counter() - started_s


def rss_bytes(pid: int) -> int:
    """Memory of a process that is in RAM; 0 where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    line = next(text for text in status.read_text().splitlines() if text.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def measure() -> dict[str, Any]:
    """The figures of one run."""
    with tempfile.TemporaryDirectory() as folder:
        starts = []
        for _ in range(STARTS):
            server, url, start_s = start(folder)
            starts.append(start_s)
            stop(server)
        server, url, _ = start(folder)
        try:
            times = sorted([ask(url, 1000 + n) for n in range(QUESTIONS)][SKIPPED:])
            rss = rss_bytes(server.pid)
        finally:
            stop(server)
    return {
        "first_start_s": round(starts[0], 3),
        "later_start_s": round(sorted(starts[1:])[len(starts[1:]) // 2], 3),
        "recommend_median_s": round(times[len(times) // 2], 4),
        "recommend_p95_s": round(times[int(0.95 * len(times))], 4),
        "rss_mb": round(rss / 1e6, 1),
    }


def main() -> int:
    """Measure, print, and compare with the limits."""
    figures = measure()
    broken = [
        name
        for name, limit in (
            ("later_start_s", MAX_START_S),
            ("recommend_p95_s", MAX_RECOMMEND_P95_S),
            ("rss_mb", MAX_RSS_BYTES / 1e6),
        )
        if figures[name] > limit
    ]
    print(json.dumps({**figures, "limits_broken": broken}, indent=2))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""The code on the page for programs, run as it stands against the running service."""

import ast
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from html import unescape
from pathlib import Path

from running_server import Server

CONFIG = {
    "model_type": "llama",
    "_name_or_path": "it's $(touch owned)",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def code_on_the_page(server: Server, query: str) -> list[str]:
    with urllib.request.urlopen(f"{server.url}/api?{query}", timeout=20) as page:
        text = page.read().decode()
    return [unescape(each) for each in re.findall(r"<pre [^>]*>(.*?)</pre>", text, re.DOTALL)]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_all_three_give_the_answer(server: Server, tmp_path: Path) -> None:
    config = urllib.parse.quote(json.dumps(CONFIG))
    query = f"model_config={config}&num_tokens=2B&instances=p5&instances=p4d&compile=false"
    curl, python, command = code_on_the_page(server, query)
    answer = json.loads(run(tmp_path, "/bin/bash", "-c", curl))
    assert answer["request"]["model"] == {"config": CONFIG}
    printed = run(tmp_path, sys.executable, "-c", python)
    assert ast.literal_eval(printed) == answer["best"]
    shardwise = f'shardwise() {{ "{sys.executable}" -m app "$@" --json; }}\n'
    by_command = json.loads(run(tmp_path, "/bin/bash", "-c", shardwise + command))
    assert by_command["request"] == answer["request"]
    assert by_command["best"]["settings"] == answer["best"]["settings"]
    assert list(tmp_path.iterdir()) == []

"""The page for programs: a question as code, every route, and nothing that runs by itself."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.access.guard import PUBLIC, ROLES
from app.access.keys import create_key
from app.access.roles import Role
from app.main import create_app
from app.settings import Settings

HTML = {"accept": "text/html"}
CONFIG = {
    "model_type": "llama",
    "_name_or_path": "</pre><script>alert(1)</script> '$(touch owned)'",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "rope_scaling": None,
}


def blocks(page: str) -> tuple[str, str, str]:
    """The curl, the Python and the command of a page."""
    found = re.findall(r"<pre tabindex=\"0\" data-copy [^>]*>(.*?)</pre>", page, re.DOTALL)
    curl, python, command = map(unescape, found)
    return curl, python, command


def sent_by_curl(curl: str) -> Any:
    return json.loads(shlex.split(curl)[-1])


def test_without_a_question_there_is_an_example(client: TestClient) -> None:
    page = client.get("/api", headers=HTML)
    assert page.status_code == 200
    curl, python, command = blocks(page.text)
    assert "http://testserver/recommend" in curl
    assert "http://testserver/recommend" in python
    assert command.startswith("shardwise recommend ")
    assert client.post("/recommend", json=sent_by_curl(curl)).status_code == 200


def test_the_question_in_the_address_is_asked(client: TestClient) -> None:
    query = "model_name=llama-3.1-8b&budget_usd=20,000&region=&compile=false"
    query += "&instances=p5&instances=p4d"
    page = client.get(f"/api?{query}", headers=HTML)
    assert page.status_code == 200
    curl, python, command = blocks(page.text)
    body = {
        "model": {"name": "llama-3.1-8b"},
        "budget_usd": 20000,
        "compile": False,
        "instances": ["p5", "p4d"],
    }
    assert sent_by_curl(curl) == body
    assignment = ast.parse(python).body[1]
    assert isinstance(assignment, ast.Assign)
    assert ast.literal_eval(assignment.value) == body
    assert "--instances=p5" in command
    assert "--no-compile" in command


def test_a_stored_question_is_asked(client: TestClient) -> None:
    asked = {"model": {"size_b": 1}, "num_tokens": 10**9, "pricing": {"usd_per_instance_hour": 30}}
    kept = client.post("/recommend", json=asked).json()
    page = client.get(f"/api?recommendation_id={kept['id']}", headers=HTML)
    assert page.status_code == 200
    assert f'href="/recommendations/{kept["id"]}"' in page.text
    body = sent_by_curl(blocks(page.text)[0])
    assert body == kept["request"]
    assert client.post("/recommend", json=body).json()["id"] == kept["id"]


@pytest.mark.parametrize("identity", ["0" * 24, "x", "%00", "../../etc"])
def test_a_question_that_is_not_stored_is_not_found(client: TestClient, identity: str) -> None:
    assert client.get(f"/api?recommendation_id={identity}", headers=HTML).status_code == 404


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("model_name=lama-3.1-8b", "did you mean llama-3.1-8b"),
        ("model_name=$(touch owned)", "$(touch owned)"),
        ("model_name=llama-3.1-8b&seq_len=long", "not &#39;long&#39;"),
        ("model_name=llama-3.1-8b&instances=g6e", "no allowed instance has such a price"),
        ("modell=x", "is not a field of this form"),
        ("budget_usd=5", "give exactly one of"),
        (f"recommendation_id={'0' * 24}&budget_usd=5", "is not a field of this form"),
    ],
)
def test_what_is_wrong_is_told_and_no_code_is_shown(
    client: TestClient, query: str, said: str
) -> None:
    page = client.get(f"/api?{query}", headers=HTML)
    assert page.status_code == 422
    assert said in page.text
    assert 'role="alert"' in page.text
    assert "data-copy" not in page.text
    link = re.search(r'<a href="(/\?[^"]+)">Correct it', page.text)
    assert link is not None
    assert client.get(unescape(link[1]), headers=HTML).status_code == 422


def test_what_a_config_holds_stays_text(client: TestClient) -> None:
    page = client.get("/api", params={"model_config": json.dumps(CONFIG)}, headers=HTML)
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    curl, python, command = blocks(page.text)
    assert sent_by_curl(curl) == {"model": {"config": CONFIG}}
    assignment = ast.parse(python).body[1]
    assert isinstance(assignment, ast.Assign)
    assert ast.literal_eval(assignment.value) == {"model": {"config": CONFIG}}
    *_, config = command.partition(" <<'JSON'\n")
    assert json.loads(config.removesuffix("\nJSON")) == CONFIG


@pytest.mark.parametrize("path", ["/api", "/api?model_name=gpt2", "/api?model_name=x"])
def test_the_page_is_complete_without_scripts_and_can_be_reached(
    client: TestClient, path: str
) -> None:
    text = client.get(path, headers=HTML).text
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'aria-labelledby="([^"]+)"', text)) <= set(ids)
    assert re.findall(r'<div class="scroll"(?! tabindex="0" role="region" aria-label=)', text) == []
    assert 'href="/openapi.json"' in text
    assert client.get(path, headers={**HTML, "accept-language": "ja"}).status_code in (200, 422)


def test_every_route_is_listed_with_its_role(client: TestClient) -> None:
    text = client.get("/api", headers=HTML).text
    rows = re.findall(r"<th scope=\"row\"><code>(\w+) (.+?)</code></th><td>(.*?)</td>", text)
    listed = {(method, unescape(path)): role for method, path, role in rows}
    document = client.get("/openapi.json").json()
    assert set(listed) == {
        (method.upper(), path) for path, each in document["paths"].items() for method in each
    }
    for place, role in listed.items():
        assert role == ("none" if place in PUBLIC else f"<code>{ROLES[place].label}</code>")
    assert listed["POST", "/results"] == f"<code>{Role.SUBMITTER.label}</code>"


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[tuple[TestClient, dict[str, str]]]:
    """A service that others reach by a proxy, and the header of a viewer's key."""
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        host="0.0.0.0",  # noqa: S104 - a setting only: nothing listens
        public_url="https://shardwise.example.org/base",
        secret_key="a-secret-of-a-test-with-more-than-32-characters",
        worker="separate",
    )
    app = create_app(settings)
    with app.state.database.writing() as session:
        key = create_key(session, "eve", Role.VIEWER, datetime.now(UTC)).text
    with TestClient(app) as client:
        yield client, {"authorization": f"Bearer {key}"}


def test_where_keys_are_needed_the_code_sends_one(
    reached: tuple[TestClient, dict[str, str]],
) -> None:
    client, key = reached
    assert client.get("/api").status_code == 401
    page = client.get("/api", headers={**HTML, **key})
    assert page.status_code == 200
    curl, python, _ = blocks(page.text)
    assert '-H "Authorization: Bearer $SHARDWISE_KEY"' in curl
    assert "os.environ['SHARDWISE_KEY']" in python
    assert key["authorization"] not in page.text
    # A proxy hides under which name people come: they must not send keys to another.
    assert "https://shardwise.example.org/base/recommend" in curl
    assert "http://testserver" not in page.text

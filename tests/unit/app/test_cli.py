"""The command line: its answers and its exit statuses."""

import json
import socket
from pathlib import Path

import pytest

from app.cli import main

LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHARDWISE_DATABASE_URL", raising=False)


def test_recommend_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "--model", "llama-3.1-8b", "--budget-usd", "500", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["request"]["budget_usd"] == 500
    assert answer["best"]["cost"]["total_usd"] <= 500


def test_recommend_leaves_no_file_behind(tmp_path: Path) -> None:
    assert main(["recommend", "--size-b", "1", "--num-tokens", "1B", "--json"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_recommend_from_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    flags = ["--num-tokens", "2B", "--no-compile", "--instances", "p5", "p4d"]
    assert main(["recommend", "--config", str(path), *flags]) == 0
    shown = capsys.readouterr().out
    assert "1,235,814,400 parameters" in shown
    assert "p6-b200" not in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recommend", "--model", "lama-3.1-8b"], "llama-3.1-8b"),
        (["recommend", "--model", "llama-3.1-8b", "--budget-usd", "much"], "--budget-usd"),
        (["recommend", "--size-b", "3000"], "size_b"),
        (["recommend", "--config", "nowhere.json"], "nowhere.json"),
        (["recommend", "--model", "llama-3.1-8b", "--region", "mars"], "region"),
        (["check", "nowhere.csv"], "nowhere.csv"),
        (["serve", "--port", "70000"], "--port"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


CSV = """id,source_url,framework,gpu,gpus_total,peak_mem_gib
mine-1,https://example.org/1,fsdp2,H100,8,40
"""


def test_check_says_why_a_row_is_out_of_scope(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(CSV)
    assert main(["check", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"][0]["in_scope"] is False
    assert report["rows"][0]["why_not"]
    assert main(["check", str(path)]) == 0
    assert "1 out of scope" in capsys.readouterr().out


def test_check_names_row_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(CSV.replace("40", "forty"))
    assert main(["check", str(path)]) == 2
    assert "row 2.peak_mem_gib" in capsys.readouterr().err


def test_import_is_idempotent_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", f"sqlite:///{tmp_path}/results.db")
    path = tmp_path / "mine.csv"
    path.write_text(CSV)
    assert main(["results", "import", str(path)]) == 0
    assert "1 results added" in capsys.readouterr().out
    assert main(["results", "import", str(path)]) == 0
    assert "0 results added, 1 were there" in capsys.readouterr().out
    path.write_text(CSV.replace("40", "41"))
    assert main(["results", "import", str(path)]) == 1
    assert "mine-1" in capsys.readouterr().err


def test_an_unusable_database_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", "oracle://h/d")
    assert main(["recommend", "--size-b", "1"]) == 2
    assert "SHARDWISE_DATABASE_URL" in capsys.readouterr().err


def test_a_database_that_is_away_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", f"sqlite:///{tmp_path}/file/results.db")
    assert main(["recommend", "--size-b", "1"]) == 2
    assert "the database cannot be reached" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    told = capsys.readouterr().err
    assert f"127.0.0.1, port {port}" in told
    assert "--port" in told

"""Requests as code: curl, Python and the command ask the very question, and run nothing else."""

import ast
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from app.cli import command_parser, form_values
from app.forms import parse_form
from app.request_examples import RequestExamples, request_body, request_examples
from app.schemas import RecommendRequest

URL = "http://127.0.0.1:8000"
CATALOG = load_catalog()
# What a shell, Python or a terminal could take for something else than text.
NASTY = (
    "$(touch owned)",
    "`touch owned`",
    "'; touch owned; '",
    '"; touch owned; "',
    "--version",
    "-",
    "@/etc/passwd",
    "a\nJSON\ntouch owned\n#",
    "x\\",
    "\\\n",
    '""" + open("owned", "w").name + """',
    "{os.environ}",
    "${HOME} !! ~ * \t",
    "\x1b[2J\x03\u202e\u2028é模",
)
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
# argparse drops a value that is "--", even behind an equals sign.
WORDS = TEXTS.map(str.strip).filter(lambda text: 0 < len(text) <= 100 and text != "--")
NUMBERS = st.integers(1, 10**6) | st.floats(1e-9, 1e6)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MODELS = st.one_of(
    WORDS.map(lambda name: {"name": name}),
    NUMBERS.map(lambda size: {"size_b": size}),
    st.dictionaries(TEXTS, JSON, max_size=4).map(lambda config: {"config": config}),
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "num_tokens": st.integers(1, 10**15),
    "seq_len": st.integers(1, 2**20),
    "global_batch_tokens": st.integers(1, 2**30),
    "training": st.sampled_from(["pretrain", "finetune"]),
    "budget_usd": NUMBERS,
    "deadline_hours": st.floats(0.001, 1000),
    "objective": st.sampled_from(["cheapest", "fastest", "most_tokens"]),
    "instances": st.lists(WORDS, min_size=1, max_size=3),
    "min_instances": st.integers(1, 64),
    "max_instances": st.integers(1, 64),
    "pricing": st.sampled_from(["training_plan", "capacity_block", "on_demand", "spot"])
    | NUMBERS.map(lambda rate: {"usd_per_instance_hour": rate})
    | NUMBERS.map(lambda rate: {"kind": "training_plan", "usd_per_instance_hour": rate}),
    "region": WORDS,
    "max_oom_probability": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "precision": st.sampled_from(["bf16", "fp8", "mxfp8", "nvfp4"]),
    "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
    "micro_batch": st.integers(1, 1024),
    "optimizer": st.sampled_from(["adamw", "adamw_bf16", "adamw_8bit"]),
    "sharding": st.sampled_from(["full", "hybrid", "none"]),
    "compile": st.booleans(),
    "loss_chunking": st.booleans(),
    "reshard_after_forward": st.booleans(),
    "gradient_sync": st.sampled_from(["each", "last"]),
    "calibration_version": st.text("0123456789abcdef", min_size=12, max_size=12),
}
REQUESTS = st.fixed_dictionaries({"model": MODELS}, optional=OPTIONAL).map(
    RecommendRequest.model_validate
)


def shell_words(text: str) -> list[str]:
    """Words as a shell reads them, with lines joined where a backslash ends one."""
    return [word for word in shlex.split(text) if word != "\n"]


def asked_by_curl(text: str) -> Any:
    words = shell_words(text)
    assert words[:3] == ["curl", "-sS", f"{URL}/recommend"]
    options = list(zip(words[3::2], words[4::2], strict=True))
    assert options[0] == ("-H", "Content-Type: application/json")
    (body,) = (value for name, value in options[1:] if name == "-d")
    return json.loads(body)


def asked_by_python(text: str) -> Any:
    question, sent = (each for each in ast.parse(text).body[1:3] if isinstance(each, ast.Assign))
    assert isinstance(sent.value, ast.Call)
    assert ast.literal_eval(sent.value.args[0]) == f"{URL}/recommend"
    return ast.literal_eval(question.value)


def asked_by_command(text: str) -> RecommendRequest:
    line, _, config = text.partition(" <<'JSON'\n")
    words = shell_words(line)
    assert words[:2] == ["shardwise", "recommend"]
    arguments = command_parser().parse_args(words[1:])
    *lines, end = config.split("\n") if config else ["JSON"]
    assert end == "JSON"
    assert "JSON" not in lines
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
        values = form_values(arguments)
    if arguments.calibration is not None:
        values["calibration_version"] = [arguments.calibration]
    parsed = parse_form(values, CATALOG)
    assert parsed.request is not None, parsed
    return parsed.request


def examples_of(body: Any, *, needs_key: bool = False) -> RequestExamples:
    return request_examples(body, URL, needs_key=needs_key)


def test_every_field_of_a_request_is_tried() -> None:
    assert {"model", *OPTIONAL} == set(RecommendRequest.model_fields)


@given(REQUESTS)
@settings(max_examples=400, deadline=None)
def test_all_three_ask_the_same_question(request: RecommendRequest) -> None:
    body = request_body(request)
    found = examples_of(body)
    wanted = request.model_dump()
    assert RecommendRequest.model_validate(body).model_dump() == wanted
    assert RecommendRequest.model_validate(asked_by_curl(found.curl)).model_dump() == wanted
    assert RecommendRequest.model_validate(asked_by_python(found.python)).model_dump() == wanted
    assert asked_by_command(found.command).model_dump() == wanted


@given(REQUESTS)
@settings(max_examples=100, deadline=None)
def test_a_stored_request_asks_the_same_too(request: RecommendRequest) -> None:
    stored = request.model_dump(mode="json", exclude_none=True)
    assert asked_by_command(examples_of(stored).command).model_dump() == request.model_dump()


def ran_by_bash(text: str, folder: Path) -> list[str]:
    """What bash hands to the program that a text names, and what it gives it to read."""
    program = 'curl() { printf "%s\\0" "$@"; }; shardwise() { curl "$@"; cat; }\n'
    done = subprocess.run(
        ["/bin/bash", "-c", program + text],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "SHARDWISE_KEY": "swk_secret"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    assert list(folder.iterdir()) == []
    return done.stdout.decode().split("\0")


@pytest.mark.parametrize("text", NASTY)
def test_nothing_of_a_value_is_run(text: str, tmp_path: Path) -> None:
    body = {"model": {"name": text}, "region": text, "instances": [text, text]}
    found = examples_of(body, needs_key=True)
    *words, rest = ran_by_bash(found.curl, tmp_path)
    assert rest == ""
    assert words[:3] == ["-sS", f"{URL}/recommend", "-H"]
    assert words[3] == "Authorization: Bearer swk_secret"
    assert json.loads(words[-1]) == body
    assert ran_by_bash(found.command, tmp_path) == [
        "recommend",
        f"--model={text}",
        f"--region={text}",
        f"--instances={text}",
        f"--instances={text}",
        "",
    ]
    config = {"model": {"config": {text: [text]}}}
    *words, read = ran_by_bash(examples_of(config).command, tmp_path)
    assert words == ["recommend", "--config=-"]
    assert json.loads(read) == config["model"]["config"]
    assert json.loads(ran_by_bash(examples_of(config).curl, tmp_path)[-2]) == config


@pytest.mark.parametrize("text", NASTY)
def test_an_address_with_anything_in_it_is_an_address(text: str, tmp_path: Path) -> None:
    found = request_examples({"model": {"name": "x"}}, text, needs_key=False)
    assert ran_by_bash(found.curl, tmp_path)[1] == f"{text}/recommend"
    sent = ast.parse(found.python).body[2]
    assert isinstance(sent, ast.Assign)
    assert isinstance(sent.value, ast.Call)
    assert ast.literal_eval(sent.value.args[0]) == f"{text}/recommend"


def test_what_cannot_be_seen_is_written_in_escapes() -> None:
    found = examples_of({"model": {"config": {"name": "\x1b[2J\u202e\x7f"}}})
    for text in (found.curl, found.python, found.command):
        assert all(each.isprintable() for each in text.split("\n"))


def test_the_key_is_only_where_it_is_needed() -> None:
    body = {"model": {"size_b": 8}}
    without, with_key = examples_of(body), examples_of(body, needs_key=True)
    assert "SHARDWISE_KEY" not in without.curl + without.python + without.command
    assert '-H "Authorization: Bearer $SHARDWISE_KEY"' in with_key.curl
    assert """f"Bearer {os.environ['SHARDWISE_KEY']}\"""" in with_key.python
    assert with_key.command == without.command


def test_a_body_has_what_was_asked_and_no_more() -> None:
    values = {"model_name": ["llama-3.1-8b"], "budget_usd": ["20,000"], "compile": ["false"]}
    request = parse_form(values, CATALOG).request
    assert request is not None
    body = request_body(request)
    assert body == {"model": {"name": "llama-3.1-8b"}, "budget_usd": 20000, "compile": False}
    assert "20000.0" not in examples_of(body).curl


def test_a_config_is_left_as_it_is() -> None:
    config = {"rope_theta": 500000.0, "rope_scaling": None, "n": 2}
    request = RecommendRequest.model_validate({"model": {"config": config}})
    found = examples_of(request_body(request))
    assert '"rope_theta": 500000.0' in found.curl
    assert '"rope_theta": 500000.0' in found.python
    assert '"rope_scaling": null' in found.command

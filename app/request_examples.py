"""Request examples: one question as curl, as Python and as a command, ready to be pasted.

A question may come from anyone: from a shared address, or from a config.json. So each value is
quoted for its language by that language's own rules, and stays a value whatever it holds.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.schemas import RecommendRequest

# httpx gives up after 5 seconds, and a search may wait for its turn for longer.
TIMEOUT_S = 60
_WIDTH = 88
_END = "JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExamples:
    """The same question in three languages."""

    curl: str
    python: str
    command: str


def request_body(request: RecommendRequest) -> dict[str, Any]:
    """What POST /recommend takes for a request: what was asked, without what was left open."""
    body: dict[str, Any] = _plain(
        request.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    )
    return body


def request_examples(
    body: Mapping[str, Any], service_url: str, *, needs_key: bool
) -> RequestExamples:
    """A body of POST /recommend in each language.

    service_url: where the service is, without a slash at its end. needs_key: the examples send the
    key in the environment variable SHARDWISE_KEY. The command answers by itself and needs none.
    """
    url = f"{service_url}/recommend"
    return RequestExamples(
        curl=_curl(body, url, needs_key=needs_key),
        python=_python(body, url, needs_key=needs_key),
        command=_command(body),
    )


def _plain(value: Any) -> Any:
    """20000.0 as 20000, which the schemas take for the same; a config.json stays as it is."""
    if isinstance(value, dict):
        return {key: each if key == "config" else _plain(each) for key, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _curl(body: Mapping[str, Any], url: str, *, needs_key: bool) -> str:
    parts = [f"curl -sS {shlex.quote(url)}"]
    if needs_key:
        # Double quotes: the shell fills in the key.
        parts.append('-H "Authorization: Bearer $SHARDWISE_KEY"')
    parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(_json(body))}"]
    return " \\\n  ".join(parts)


def _python(body: Mapping[str, Any], url: str, *, needs_key: bool) -> str:
    bearer = """{"Authorization": f"Bearer {os.environ['SHARDWISE_KEY']}"}"""
    lines = [
        *(["import os", ""] if needs_key else []),
        "import httpx",
        "",
        f"question = {_literal(body, 0)}",
        "response = httpx.post(",
        f"    {_literal(url, 1)},",
        "    json=question,",
        *([f"    headers={bearer},"] if needs_key else []),
        f"    timeout={TIMEOUT_S},",
        ")",
        "response.raise_for_status()",
        "answer = response.json()",
        'print(answer["best"] or answer["nearest_miss"])',
    ]
    return "\n".join(lines)


def _command(body: Mapping[str, Any]) -> str:
    """shardwise recommend; a config.json comes by its standard input."""
    lines = " \\\n  ".join(("shardwise recommend", *_options(body)))
    config = body["model"].get("config")
    return lines if config is None else f"{lines} <<'{_END}'\n{_json(config)}\n{_END}"


def _options(body: Mapping[str, Any]) -> Iterator[str]:
    """The command's options: what each field of a request is called there, with its value."""
    rest = dict(body)
    model, pricing = rest.pop("model"), rest.pop("pricing", None)
    if "config" in model:
        yield "--config=-"
    elif "name" in model:
        yield _option("model", model["name"])
    else:
        yield _option("size-b", model["size_b"])
    if isinstance(pricing, Mapping):
        yield _option("usd-per-instance-hour", pricing["usd_per_instance_hour"])
        pricing = pricing.get("kind")
    if pricing is not None:
        yield _option("pricing", pricing)
    for name, value in rest.items():
        flag = "calibration" if name == "calibration_version" else name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        else:
            for each in value if isinstance(value, list) else [value]:
                yield _option(flag, each)


def _option(flag: str, value: str | float) -> str:
    """Joined by =, so that a value that begins with a dash is still a value."""
    return f"--{flag}={shlex.quote(str(value))}"


def _json(value: object) -> str:
    """JSON in ASCII: no character of it moves a terminal's cursor or turns its text around."""
    line = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return line if len(line) <= _WIDTH else json.dumps(value, indent=2, ensure_ascii=True)


def _literal(value: object, depth: int) -> str:
    """A Python literal, in several lines where one would be too long."""
    if isinstance(value, str):
        return _string(value)
    if not isinstance(value, Mapping | list) or not value:
        return repr(value)
    if isinstance(value, Mapping):
        parts = [f"{_string(key)}: {_literal(each, depth + 1)}" for key, each in value.items()]
        opening, closing = "{", "}"
    else:
        parts = [_literal(each, depth + 1) for each in value]
        opening, closing = "[", "]"
    line = f"{opening}{', '.join(parts)}{closing}"
    if depth and "\n" not in line and len(line) + 4 * depth <= _WIDTH:
        return line
    inner = "\n".join(f"{'    ' * (depth + 1)}{part}," for part in parts)
    return f"{opening}\n{inner}\n{'    ' * depth}{closing}"


def _string(text: str) -> str:
    """Between double quotes; with repr's escapes where a character cannot be seen."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)

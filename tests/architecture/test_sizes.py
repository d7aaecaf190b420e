"""Files and functions stay small enough to read at once."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
FOLDERS = ("advisor", "app", "trainer", "migrations", "tests")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TEMPLATES = sorted(
    path
    for folder in ("templates", "app/static")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
)
FORBIDDEN_NAMES = ("utils.py", "common.py", "base.py", "helpers.py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*FILES, *TEMPLATES], ids=name)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions_are_short(path: Path) -> None:
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_files_are_named_for_what_they_hold() -> None:
    assert [name(path) for path in FILES if path.name in FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("path", [p for p in FILES if "tests" not in p.parts], ids=name)
def test_each_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))

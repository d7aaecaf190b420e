"""Extract: what there is to translate, read from templates and from the code's own sentences.

Templates and calls of gettext are read by Babel. Sentences that the advisor, checks and errors
build are taken from the source as forms: f"needs {a} GiB" becomes "needs {0} GiB".

    python -m app.translations.extract           names what is missing
    python -m app.translations.extract --write   adds it to the catalogues, without a translation
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import count
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from app.settings import resources
from app.translations.language import NAMES, Language

ROOT = Path(__file__).parents[2]
# Whose sentences reach a page.
SPOKEN = (
    *(
        f"advisor/{name}.py"
        for name in (
            *("accuracy", "candidate", "case", "catalog", "config_reader", "config_refusals"),
            *("cost", "errors", "explicit", "factor_report", "family_rules", "guards", "miss"),
            *("model", "model_catalog", "model_config", "model_size", "neighbours", "price"),
            *("reasons", "remedies", "rope_config", "search", "stack", "workload"),
            *("explain", "explanation", "memory_explanations", "memory_formulas"),
            *("step_explanations", "step_formulas", "communication_formulas", "block_parts"),
            *("cost_explanations", "interval_explanations"),
        )
    ),
    *(
        f"app/{name}.py"
        for name in (
            *("access/caps", "access/csrf", "access/guard", "access/keys", "access/login"),
            *("aws/errors", "aws/offerings", "aws/preflight", "aws/preflight_facts"),
            *("aws/purchases", "aws/sagemaker_service", "aws/training_plans", "benchmarks"),
            *("calibrations", "comparisons", "database", "errors", "job_starts"),
            *("jobs/advance", "jobs/failures", "jobs/local_fit", "jobs/local_preflight"),
            *("jobs/local_runner", "jobs/local_service", "jobs/orders", "jobs/preview"),
            *("jobs/schemas", "jobs/store", "laws", "middleware", "recommendations"),
            *("render", "render_jobs", "render_plans", "routes/job_pages", "routes/jobs"),
            *("routes/login", "routes/plans", "routes/plots", "schemas", "service"),
            *("strict_json", "sweeps", "forms", "sent_form", "compare_form", "launch_form"),
            *("accuracy_plots", "derived", "views", "plots/micro_batch", "plots/timeline"),
            *("plots/around", "plan_choices", "plan_form", "plan_sales", "plan_schemas"),
        )
    ),
)
# Whose dictionaries' keys are names that a page shows.
NAMED = ("advisor/memory.py", "advisor/throughput.py", "advisor/candidate.py")
# Whose notes a page shows.
NOTED = "advisor/data/prices.toml"
_FIELDS = {"FormField", "Group", "Column", "Check"}
_UNSPOKEN = {"AssertionError", "TypeError", "compile", "Field"}
_LOGS = {"debug", "info", "warning", "error", "exception"}
_SENTENCE = re.compile(r"[A-Za-z)%}][,;:]? [a-z{(0-9]")
# Of str.format, without a name: "{:,.0f}".
_PLACE = re.compile(r"\{(?::[^{}]*)?\}")
_KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2)}


def messages() -> Catalog:
    """Everything that there is to translate, with where it stands."""
    found = Catalog()
    _add_marked(found)
    _add_spoken(found)
    _add_route_descriptions(found)
    for note in _notes(tomllib.loads((ROOT / NOTED).read_text())):
        found.add(note, locations=[(NOTED, 1)])
    return found


def _add_spoken(found: Catalog) -> None:
    """Sentences of the code, and names of terms."""
    for paths, texts in ((SPOKEN, _sentences), (NAMED, _names)):
        for path in paths:
            for line, text in texts(ast.parse((ROOT / path).read_text())):
                found.add(text, locations=[(path, line)])


def _add_route_descriptions(found: Catalog) -> None:
    """Of routes that the page of the API lists; pages are not among them."""
    for file in sorted((ROOT / "app/routes").glob("*.py")):
        source = file.read_text()
        if "include_in_schema=False" not in source:
            for line, text in _route_descriptions(ast.parse(source)):
                found.add(text, locations=[(f"app/routes/{file.name}", line)])


def _add_marked(found: Catalog) -> None:
    """What templates show, and what is marked in the code."""
    methods = {
        "templates": [("**.html", "jinja2")],
        "app": [("**.py", "python")],
    }
    options = {
        "**.html": {
            "trimmed": "true",
            "newstyle_gettext": "true",
            "trim_blocks": "true",
            "lstrip_blocks": "true",
            "silent": "false",
        }
    }
    for folder, method in methods.items():
        place = resources("templates") if folder == "templates" else ROOT / folder
        for name, line, text, _, _ in extract_from_dir(
            str(place), method, options, keywords=_KEYWORDS
        ):
            found.add(text, locations=[(f"{folder}/{name}", line)])


def _sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Literals of several words, and what form fields say; never docstrings, patterns or logs."""
    skipped = set(_docstrings(tree)) | set(_inner(tree))
    spoken: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in _UNSPOKEN or name in _LOGS:
                skipped.update(id(each) for each in ast.walk(node))
            elif name in _FIELDS or name == "_choices":
                spoken.update(id(each) for each in _shown_parts(node))
    for node in ast.walk(tree):
        text = _form(node)
        if text is None or id(node) in skipped:
            continue
        if id(node) in spoken or (_SENTENCE.search(text) and not text.startswith(("#", "<"))):
            yield node.lineno, text  # type: ignore[attr-defined]


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _shown_parts(node: ast.Call) -> Iterator[ast.AST]:
    """The texts of a field: not its name and not its choices' values."""
    for keyword in node.keywords:
        is_named = _called(node) == "Check" and keyword.arg == "name"
        if is_named or keyword.arg in ("label", "blank", "hint", "title"):
            yield from ast.walk(keyword.value)
        if keyword.arg == "choices" and isinstance(keyword.value, ast.Tuple):
            for choice in keyword.value.elts:
                if isinstance(choice, ast.Tuple) and len(choice.elts) == 2:
                    yield choice.elts[1]


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.lineno, key.value
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ALLOCATOR_TERM":
            yield node.lineno, ast.literal_eval(node.value)


def _route_descriptions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What routes do, as the page of the API lists them."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            text = ast.get_docstring(node)
            if text:
                yield node.lineno, text.split("\n\n")[0].replace("\n", " ")


def _notes(value: object) -> Iterator[str]:
    """The texts under "note" anywhere in a data file."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name in ("note", "notes"):
                yield from [part] if isinstance(part, str) else part
            else:
                yield from _notes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _notes(part)


def _form(node: ast.AST) -> str | None:
    """A literal's text, with numbered places where values are put."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        places = count()
        return _PLACE.sub(lambda _: f"{{{next(places)}}}", node.value)
    if not isinstance(node, ast.JoinedStr):
        return None
    text, number = "", 0
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        else:
            text += f"{{{number}}}"
            number += 1
    return text


def _docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def _inner(tree: ast.Module) -> Iterator[int]:
    """What stands inside of f-strings: it is part of their form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                yield id(part)
                if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                    yield from (id(each) for each in ast.walk(part.format_spec))


def missing(language: Language) -> list[str]:
    """Messages that the catalogue of a language does not say."""
    with files(__package__).joinpath(f"{language}.po").open("rb") as file:
        read = read_po(file, locale=language)
    return [
        str(each.id if isinstance(each.id, str) else each.id[0])
        for each in messages()
        if each.id and not _is_said(read, each.id)
    ]


def _is_said(read: Catalog, identity: str | tuple[str, ...] | list[str]) -> bool:
    known = read.get(identity if isinstance(identity, str) else identity[0])
    if known is None or known.fuzzy:
        return False
    strings = [known.string] if isinstance(known.string, str) else list(known.string or ())
    return bool(strings) and all(strings)


def write(language: Language) -> int:
    """Bring a catalogue up to date; what is new has no translation yet. How many have none."""
    path = Path(__file__).parent / f"{language}.po"
    with path.open("rb") as file:
        read = read_po(file, locale=language)
    read.update(messages(), no_fuzzy_matching=True)
    read.obsolete.clear()
    read.header_comment = f"# {NAMES[language]} of what Shardwise says."
    read.project, read.version = "Shardwise", "1"
    with path.open("wb") as file:
        write_po(file, read, width=100, sort_output=True, omit_header=False, no_location=True)
    return len(missing(language))


def main() -> int:
    """The command. 1 where something is missing."""
    count = 0
    for language in NAMES:
        if language == "en":
            continue
        if sys.argv[1:] == ["--write"]:
            count += write(language)
        else:
            names = missing(language)
            count += len(names)
            sys.stdout.writelines(f"{language}: {name}\n" for name in names)
    sys.stdout.write(f"{count} messages without a translation\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

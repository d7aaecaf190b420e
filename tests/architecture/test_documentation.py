"""What users meet is documented: routes, fields, errors, settings, commands, the tree of files."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from app.cli import main
from app.errors import ADVISOR_CODES, AppError
from app.jobs.schemas import JobRequest
from app.routes import (
    accuracy,
    api,
    api_page,
    health,
    job_pages,
    jobs,
    language,
    login,
    pages,
    plan_pages,
    plans,
    plots,
    what_if,
)
from app.routes.plans import PlanPurchaseOrder, PlanSearch
from app.schemas import RecommendRequest, ResultUpload
from app.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
API = (ROOT / "docs/api.md").read_text()
SETTINGS = (ROOT / "docs/settings.md").read_text()
ROUTE_MODULES = (
    *(accuracy, api, api_page, health, job_pages, jobs, language, login, pages, plan_pages, plans),
    *(plots, what_if),
)
ROUTES = [
    (method, route.path)
    for module in ROUTE_MODULES
    for route in module.router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]


def test_there_are_routes() -> None:
    assert ("POST", "/recommend") in ROUTES


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_is_documented(method: str, path: str) -> None:
    plain = path.replace("{identity}", "{id}")
    assert f"`{method} {plain}`" in API


@pytest.mark.parametrize(
    "field",
    [
        *RecommendRequest.model_fields,
        *JobRequest.model_fields,
        *PlanSearch.model_fields,
        *PlanPurchaseOrder.model_fields,
        *(set(ResultUpload.model_fields) - {"rows"}),
    ],
)
def test_every_field_is_documented(field: str) -> None:
    assert f"`{field}`" in API


@pytest.mark.parametrize(
    "code", sorted({*(kind.code for kind in AppError.__subclasses__()), *ADVISOR_CODES.values()})
)
def test_every_error_code_is_documented(code: str) -> None:
    assert f"`{code}`" in API


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    default = getattr(Settings(), name)
    row = next(
        line for line in SETTINGS.splitlines() if line.startswith(f"| `{PREFIX}{name.upper()}`")
    )
    assert f"`{default}`" in row


def test_no_setting_is_documented_that_does_not_exist() -> None:
    known = {PREFIX + field.name.upper() for field in fields(Settings)}
    assert set(re.findall(rf"`({PREFIX}\w+)`", SETTINGS)) <= known


@pytest.mark.parametrize(
    "command",
    ["serve", "demo", "worker", "recommend", "check", "calibrate", "results import", "keys create"],
)
def test_every_command_is_in_the_readme_and_has_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"shardwise {command}" in README
    with pytest.raises(SystemExit) as done:
        main([*command.split(), "--help"])
    assert done.value.code == 0
    assert "usage: shardwise" in capsys.readouterr().out


TREE = README.partition("```text\n")[2].partition("```")[0]
# What is in the repository and its tree: everything that is not made by a tool.
TOP = sorted(
    path.name
    for path in ROOT.iterdir()
    if not path.name.startswith(".") and path.name not in ("var", "out", "dist", "build")
)
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("advisor", "app", "trainer")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("name", TOP)
def test_every_top_file_is_in_the_tree(name: str) -> None:
    assert re.search(rf"^{re.escape(name)}/?\s", TREE, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_in_the_tree_with_a_line(module: str) -> None:
    assert re.search(rf"^\s+{re.escape(Path(module).name)}\s+\S", TREE, re.MULTILINE)


def test_every_link_between_documents_leads_somewhere() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"

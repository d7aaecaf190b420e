"""What the service loads before its first answer: little, or it starts late."""

import subprocess
import sys

import pytest

LOADED = "import sys, app.main; print(' '.join(sys.modules))"
HELP = "import sys, app.cli; print(' '.join(sys.modules))"


def modules(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["torch", "numpy", "alembic", "boto3", "trainer"])
def test_the_service_starts_without(name: str) -> None:
    assert name not in modules(LOADED)


@pytest.mark.parametrize("name", ["numpy", "fastapi", "sqlalchemy", "pydantic", "jinja2"])
def test_the_command_line_starts_without(name: str) -> None:
    assert name not in modules(HELP)

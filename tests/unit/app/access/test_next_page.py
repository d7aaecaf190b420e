"""Where a login leads: to pages of this service only."""

import pytest
from starlette.datastructures import URL

from app.access.next_page import local_page, login_address


@pytest.mark.parametrize("text", ["/", "/jobs?status=failed", "/jobs/new?a=b&c=%2F"])
def test_pages_of_ours(text: str) -> None:
    assert local_page(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "jobs", "//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "/" * 3000],
)
def test_anything_else_is_the_first_page(text: str) -> None:
    assert local_page(text) == "/"


def test_the_address_of_the_login() -> None:
    assert login_address(URL("http://h/jobs?a=1")) == "/login?next=%2Fjobs%3Fa%3D1"
    assert login_address(URL("http://h/")) == "/login"

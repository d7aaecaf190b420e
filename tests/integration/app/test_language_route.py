"""The switch of the language over HTTP: a cookie, and back to the page it was thrown on."""

import pytest
from fastapi.testclient import TestClient

HTML = {"accept": "text/html"}


def switched(client: TestClient, path: str) -> tuple[int, str, str]:
    """Status, where it leads, and the cookie that is set."""
    answer = client.get(path, headers=HTML, follow_redirects=False)
    client.cookies.clear()
    return (
        answer.status_code,
        answer.headers.get("location", ""),
        answer.headers.get("set-cookie", ""),
    )


def test_the_switch_leads_back_and_is_kept(client: TestClient) -> None:
    status, place, cookie = switched(client, "/language/ja?next=/results%3Fgpu%3DB200")
    assert (status, place) == (303, "/results?gpu=B200")
    assert cookie.startswith("language=ja;")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    page = client.get("/", headers={**HTML, "cookie": "language=ja", "accept-language": "en"})
    assert page.headers["content-language"] == "ja"
    assert '<html lang="ja"' in page.text


@pytest.mark.parametrize("place", ["https://example.org/", "//example.org", "/\\example.org", "x"])
def test_it_never_leads_elsewhere(client: TestClient, place: str) -> None:
    status, found, _ = switched(client, f"/language/ja?next={place}")
    assert status == 303
    assert found == "/"


@pytest.mark.parametrize("name", ["de", "EN", "ja-JP", "../en"])
def test_an_unknown_language_is_told(client: TestClient, name: str) -> None:
    assert client.get(f"/language/{name}", follow_redirects=False).status_code == 404


def test_a_browser_s_wish_is_heard(client: TestClient) -> None:
    page = client.get("/", headers={**HTML, "accept-language": "fr, ja;q=0.8, en;q=0.5"})
    assert page.headers["content-language"] == "ja"
    assert "Accept-Language" in page.headers["vary"]

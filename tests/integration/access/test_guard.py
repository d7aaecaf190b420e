"""Requests with and without keys: who is answered, and what browsers may send."""

import re
from datetime import UTC, datetime

import pytest
from reached_service import Reached
from sqlalchemy import select

from app.access.keys import revoke_key
from app.access.tables import ApiKey, AuditEntry, Login

HTML = {"Accept": "text/html"}
QUESTION = {"model": {"size_b": 1}, "num_tokens": 10**9, "instances": ["p5en"]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/results"),
        ("POST", "/recommend"),
        ("GET", "/jobs"),
        ("POST", "/jobs/abc/stop"),
        ("GET", "/audit"),
        ("HEAD", "/results"),
    ],
)
def test_nobody_is_answered_without_a_key(reached: Reached, method: str, path: str) -> None:
    answer = reached.client.request(method, path)
    assert answer.status_code in (401, 405)
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("text", ["", "swk_00_11", "swk_0123456789abcdef_" + "0" * 64, "ü"])
def test_a_key_that_is_not_known(reached: Reached, text: str) -> None:
    headers = {"Authorization": f"Bearer {text}".encode()}
    answer = reached.client.get("/results", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, "not_logged_in")


def test_health_is_for_everybody(reached: Reached) -> None:
    assert reached.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("viewer", "GET", "/results", 200),
        ("viewer", "POST", "/jobs", 403),
        ("viewer", "GET", "/jobs/new", 403),
        ("viewer", "POST", "/results", 403),
        ("viewer", "GET", "/audit", 403),
        ("submitter", "POST", "/jobs", 422),
        ("submitter", "GET", "/audit", 403),
        ("admin", "GET", "/audit", 200),
    ],
)
def test_roles(reached: Reached, role: str, method: str, path: str, status: int) -> None:
    answer = reached.client.request(method, path, headers=reached.bearer(role))
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"] == "not_allowed"


def test_a_browser_is_led_to_the_login_and_back(reached: Reached) -> None:
    client = reached.client
    led = client.get("/results?gpu=H100", headers=HTML, follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (
        303,
        "/login?next=%2Fresults%3Fgpu%3DH100",
    )
    assert 'name="next" value="/results?gpu=H100"' in client.get(led.headers["location"]).text
    sent = {"key": reached.keys["viewer"], "next": "/results?gpu=H100"}
    logged_in = client.post("/login", data=sent, headers=HTML, follow_redirects=False)
    assert logged_in.headers["location"] == "/results?gpu=H100"
    cookie = logged_in.headers["set-cookie"]
    for part in ("__Host-shardwise_login=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"):
        assert part in cookie
    page = client.get("/results", headers=HTML)
    assert page.status_code == 200
    assert "Log out" in page.text
    assert "/audit" not in page.text


def test_the_next_page_is_one_of_ours(reached: Reached) -> None:
    sent = {"key": reached.keys["viewer"], "next": "//evil.example/"}
    answer = reached.client.post("/login", data=sent, headers=HTML, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_a_wrong_key_is_told_at_the_field_and_the_eleventh_try_waits(reached: Reached) -> None:
    for _ in range(10):
        answer = reached.client.post("/login", data={"key": "swk_wrong"}, headers=HTML)
        assert answer.status_code == 401
        assert "not known" in answer.text
        assert "swk_wrong" not in answer.text
    answer = reached.client.post("/login", data={"key": reached.keys["admin"]})
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60


def _log_in(reached: Reached, role: str) -> str:
    """Log the client in; the token of its forms."""
    reached.client.post("/login", data={"key": reached.keys[role]}, headers=HTML)
    page = reached.client.get("/results", headers=HTML).text
    found = re.search(r'name="csrf_token" value="([0-9a-f]{64})"', page)
    assert found
    return found[1]


def test_a_form_needs_the_token_of_its_login(reached: Reached) -> None:
    token = _log_in(reached, "admin")
    for given in ({}, {"csrf_token": "0" * 64}, {"csrf_token": "ü"}):
        assert reached.client.post("/logout", data=given).status_code == 403
    assert reached.client.post("/recommend", json=QUESTION).status_code == 403
    with_header = reached.client.post("/recommend", json=QUESTION, headers={"X-CSRF-Token": token})
    assert with_header.status_code == 200
    left = reached.client.post("/logout", data={"csrf_token": token}, follow_redirects=False)
    assert left.headers["location"] == "/login"
    assert reached.client.get("/results").status_code == 401


def test_the_question_form_needs_none_and_shows_no_token_in_its_address(reached: Reached) -> None:
    _log_in(reached, "viewer")
    sent = {"model_name": "llama-3.1-8b", "budget_usd": "20000"}
    answer = reached.client.post("/", data=sent, headers=HTML)
    assert answer.status_code == 200
    assert "csrf_token" not in str(answer.url)


def test_another_website_is_refused(reached: Reached) -> None:
    token = _log_in(reached, "admin")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        answer = reached.client.post("/logout", data={"csrf_token": token}, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "not_allowed")


def test_a_revoked_key_ends_its_logins(reached: Reached) -> None:
    _log_in(reached, "viewer")
    with reached.database.writing() as session:
        revoke_key(session, "viewer", datetime.now(UTC))
    assert reached.client.get("/results").status_code == 401
    assert reached.client.get("/results", headers=reached.bearer("viewer")).status_code == 401


def test_a_changed_cookie_is_nobody(reached: Reached) -> None:
    _log_in(reached, "viewer")
    (name, value), *_ = reached.client.cookies.items()
    reached.client.cookies.clear()
    # Not the last character, whose low bits base64 ignores.
    changed = ("a" if value[0] != "a" else "b") + value[1:]
    answer = reached.client.get("/results", headers={"Cookie": f"{name}={changed}"})
    assert answer.status_code == 401


def test_the_audit_trail_has_the_login_and_no_secret(reached: Reached) -> None:
    _log_in(reached, "admin")
    answer = reached.client.get("/audit").json()
    assert [(each["actor"], each["action"]) for each in answer["entries"]] == [("admin", "login")]
    secrets = [key.rpartition("_")[2] for key in reached.keys.values()]
    page = reached.client.get("/audit", headers=HTML).text
    assert not any(secret in page for secret in secrets)
    with reached.database.reading() as session:
        for table in (ApiKey, Login, AuditEntry):
            rows = [vars(row) for row in session.scalars(select(table))]
            assert rows
            assert not any(secret in str(rows) for secret in secrets)

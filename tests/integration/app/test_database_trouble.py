"""A database that is away: a clear 503, nothing half-written, and recovery by itself."""

import logging
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.main import create_app
from app.settings import Settings

QUESTION = {"model": {"name": "llama-3.1-8b"}, "budget_usd": 500}
ROW = {"id": "mine-1", "source_url": "https://example.org/run/1"}


def test_the_service_starts_without_its_database_and_recovers(tmp_path: Path) -> None:
    blocked = tmp_path / "folder"
    blocked.write_text("a file where the folder should be")
    settings = Settings(database_url=f"sqlite:///{blocked}/test.db")
    with TestClient(create_app(settings)) as client:
        response = client.get("/healthz")
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert "SHARDWISE_DATABASE_URL" in response.json()["detail"]
        assert client.post("/recommend", json=QUESTION).status_code == 503
        page = client.get("/", headers={"accept": "text/html"})
        assert page.status_code == 503
        assert "the database cannot be reached" in page.text
        blocked.unlink()
        assert client.get("/healthz").status_code == 200
        assert client.post("/recommend", json=QUESTION).status_code == 200


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    path.write_bytes(b"not a database" * 1000)
    with TestClient(create_app(Settings(database_url=f"sqlite:///{path}"))) as client:
        assert client.get("/healthz").status_code == 503
        path.unlink()
        assert client.get("/healthz").status_code == 200


def test_a_file_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with TestClient(create_app(Settings(database_url=f"sqlite:///{path}"))) as client:
        first = client.post("/recommend", json=QUESTION).json()["id"]
        path.unlink()
        assert client.get(f"/recommendations/{first}").status_code == 404
        again = client.post("/recommend", json=QUESTION)
        assert again.status_code == 200
        assert path.exists()
    with TestClient(create_app(Settings(database_url=f"sqlite:///{path}"))) as client:
        assert client.get(f"/recommendations/{first}").status_code == 200


def test_a_server_that_stops_and_starts(postgresql_server: Any, postgresql_url: str) -> None:
    with TestClient(create_app(Settings(database_url=postgresql_url))) as client:
        assert client.post("/recommend", json=QUESTION).status_code == 200
        postgresql_server.stop()
        try:
            for response in (
                client.get("/healthz"),
                client.post("/recommend", json=QUESTION),
                client.post("/results", json=ROW),
                client.get("/results"),
            ):
                assert response.status_code == 503
        finally:
            postgresql_server.start()
        assert client.get("/healthz").status_code == 200
        assert client.post("/results", json=ROW).status_code == 201


def test_a_database_made_anew_is_migrated_again(postgresql_url: str) -> None:
    with TestClient(create_app(Settings(database_url=postgresql_url))) as client:
        assert client.get("/healthz").status_code == 200
        database = client.app.state.database  # type: ignore[attr-defined]  # it is a FastAPI
        with database.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        assert client.get("/healthz").status_code == 503
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"), [("/results", ROW), ("/recommend", QUESTION)], ids=["results", "recommend"]
)
def test_a_commit_that_fails_is_never_a_success(
    own_client: TestClient, path: str, body: dict[str, Any]
) -> None:
    assert own_client.get("/healthz").status_code == 200
    total = own_client.get("/results").json()["total"]

    def fail(session: Session) -> None:
        if session.in_transaction():
            raise OperationalError("COMMIT", {}, Exception("disk full"))

    event.listen(Session, "before_commit", fail)
    try:
        response = own_client.post(path, json=body)
    finally:
        event.remove(Session, "before_commit", fail)
    assert response.status_code == 503
    assert own_client.get("/results").json()["total"] == total


def test_a_bug_is_told_with_its_request_id_and_logged(
    own_client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    own_client.app.state.service = None  # type: ignore[attr-defined]  # it is a FastAPI
    with caplog.at_level(logging.ERROR):
        response = own_client.get("/healthz")
    assert response.status_code == 500
    error = response.json()
    assert error["error"] == "internal_error"
    assert error["request_id"] == response.headers["x-request-id"]
    assert "the application has no service" in caplog.text
    assert "no service" not in response.text
    assert response.headers["content-security-policy"]

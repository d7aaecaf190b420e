"""GET /accuracy: the report as JSON, filtered, and as a page without scripts."""

import re

import pytest
from fastapi.testclient import TestClient

from app.accuracy import AccuracyCache
from app.errors import ServiceUnavailable


def test_report_has_figures_of_predictions_that_left_the_source_out(client: TestClient) -> None:
    report = client.get("/accuracy").json()
    memory = report["summary"]["memory"]
    assert memory["count"] > 50
    assert 0 < memory["median_abs_error"] < memory["p90_abs_error"] < 1
    assert sum(group["memory"]["count"] for group in report["groups"]["gpu"]) == memory["count"]
    assert len(report["worst"]["throughput"]) == 10
    sizes = [abs(row["error"]) for row in report["worst"]["memory"]]
    assert sizes == sorted(sizes, reverse=True)
    known = [row for row in report["rows"] if row["out_of_memory_probability"] is not None]
    assert sum(row["count"] for row in report["reliability"]) == len(known)
    assert report["history"]
    assert {line["name"] for line in report["factors"]} >= {"matmul", "reserved/sharded"}


@pytest.mark.parametrize(
    ("name", "value"), [("stack", "composer"), ("precision", "fp8"), ("source", "titan")]
)
def test_rows_are_filtered(client: TestClient, name: str, value: str) -> None:
    every = client.get("/accuracy").json()["rows"]
    some = client.get("/accuracy", params={name: value}).json()["rows"]
    assert some == [row for row in every if row[name] == value]
    assert 0 < len(some) < len(every)


def test_page_shows_a_dot_for_each_row(client: TestClient) -> None:
    html = {"Accept": "text/html"}
    rows = client.get("/accuracy", params={"stack": "torchtitan"}).json()["rows"]
    dots = sum(row["memory_error"] is not None for row in rows)
    dots += sum(row["throughput_error"] is not None for row in rows)
    page = client.get("/accuracy", params={"stack": "torchtitan"}, headers=html)
    assert page.status_code == 200
    assert len(re.findall(r"<circle[^>]*class=\"dot", page.text)) >= dots > 0
    assert client.get("/accuracy", params={"gpu": "none"}, headers=html).status_code == 200


def test_bad_filter_names_the_field(client: TestClient) -> None:
    assert client.get("/accuracy", params={"gpu": "x" * 300}).json()["field"] == "gpu"


def test_report_is_computed_once(client: TestClient) -> None:
    service = client.app.state.service  # type: ignore[attr-defined] # Starlette's own attribute
    with service.database.reading() as session:
        first = service.accuracy.current(session)
        assert service.accuracy.current(session) is first


def test_who_cannot_wait_is_asked_to_come_again(client: TestClient) -> None:
    service = client.app.state.service  # type: ignore[attr-defined] # Starlette's own attribute
    busy = AccuracyCache(wait_s=0.01)
    with service.database.reading() as session, busy.computing(), pytest.raises(ServiceUnavailable):
        busy.current(session)

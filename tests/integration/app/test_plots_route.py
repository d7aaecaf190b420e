"""Plots of an answer over HTTP: JSON, a page with a table behind each picture, and CSV."""

import csv
import io
import json
import re
from html import unescape
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

HTML = {"accept": "text/html"}
GIB = 1024**3
QUESTION = {"model": {"name": "llama-3.1-8b"}, "num_tokens": 10**11, "deadline_hours": 100}


@pytest.fixture(scope="module")
def answer(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/recommend", json=QUESTION).json()
    return found


@pytest.fixture(scope="module")
def figures(client: TestClient, answer: dict[str, Any]) -> dict[str, Any]:
    found = client.get(f"/recommendations/{answer['id']}/plots").json()
    assert found["id"] == answer["id"]
    return {each["name"]: each for each in found["figures"]}


def test_the_recommended_plan_is_on_the_curves(
    answer: dict[str, Any], figures: dict[str, Any]
) -> None:
    best = answer["best"]
    rows = figures["micro_batch"]["rows"]
    settings = best["settings"]
    way = settings["activation_checkpointing"]
    if settings["checkpoint_every"]:
        way += f", every {settings['checkpoint_every']}th block"
    (row,) = (
        each
        for each in rows
        if each["activation_checkpointing"] == way
        and each["micro_batch"] == settings["micro_batch"]
    )
    assert row["tokens_per_s"] == pytest.approx(best["throughput"]["tokens_per_s"])
    assert row["peak_gib"] * GIB == pytest.approx(best["memory"]["peak_bytes"])
    assert row["fits"] is True
    (mark,) = figures["micro_batch"]["pictures"][1]["marks"]
    assert mark["value"] * GIB == best["memory"]["capacity_bytes"]


def test_checkpointing_takes_memory_away_and_speed(figures: dict[str, Any]) -> None:
    rows = {
        (each["activation_checkpointing"], each["micro_batch"]): each
        for each in figures["micro_batch"]["rows"]
    }
    for size in (1, 2, 4, 8, 16, 32):
        kept, some, full = (rows[mode, size] for mode in ("none", "selective", "full"))
        assert kept["peak_gib"] >= some["peak_gib"] >= full["peak_gib"]
        assert kept["tokens_per_s"] >= some["tokens_per_s"] >= full["tokens_per_s"]


def test_the_timeline_has_the_peak(answer: dict[str, Any], figures: dict[str, Any]) -> None:
    memory = answer["best"]["memory"]
    totals = {each["instant"]: each["total"] * GIB for each in figures["memory_timeline"]["rows"]}
    assert max(totals, key=lambda name: totals[name]) == memory["peak_instant"]
    for name, value in memory["instants"].items():
        assert totals[name] == pytest.approx(value, abs=2)


def test_a_front_falls_in_cost_as_time_grows(figures: dict[str, Any]) -> None:
    rows = figures["cost_and_time"]["rows"]
    by_type: dict[str, list[Any]] = {}
    for row in rows:
        by_type.setdefault(row["instance_type"], []).append(row)
    assert len(by_type) > 3
    for own in by_type.values():
        for faster, slower in pairwise(own):
            assert faster["hours"] < slower["hours"]
            assert faster["usd"] > slower["usd"]
    best = [row for row in rows if row["is_best"]]
    assert best
    for row in best:
        beaten = [
            other for other in rows if other["usd"] < row["usd"] and other["hours"] < row["hours"]
        ]
        assert beaten == []


def test_the_answer_is_on_the_front(answer: dict[str, Any], figures: dict[str, Any]) -> None:
    cost = answer["best"]["cost"]
    within = [row for row in figures["cost_and_time"]["rows"] if row["hours"] <= 100]
    assert min(row["usd"] for row in within) == pytest.approx(cost["total_usd"], abs=0.02)


def test_a_point_leads_to_a_question_with_that_plan(
    client: TestClient, figures: dict[str, Any]
) -> None:
    for row in figures["cost_and_time"]["rows"][::7]:
        page = client.get(row["link"], headers=HTML)
        assert page.status_code == 200, row["link"]
        identity = re.search(r"/recommendations/([0-9a-f]{24})", page.text)
        assert identity is not None
        content = client.get(f"/recommendations/{identity[1]}").json()
        settings = content["best"]["settings"]
        for name in ("instance_type", "num_instances", "precision", "micro_batch"):
            assert settings[name] == row[name]
        assert content["best"]["cost"]["hours"] == pytest.approx(row["hours"], rel=0.02)


def test_more_instances_are_faster_and_wait_more(figures: dict[str, Any]) -> None:
    rows = [row for row in figures["scaling"]["rows"] if row["instance_type"] == "p6-b200.48xlarge"]
    assert [row["num_instances"] for row in rows] == sorted(row["num_instances"] for row in rows)
    speeds = [row["tokens_per_s"] for row in rows]
    assert speeds == sorted(speeds)
    # In proportion at most.
    first = rows[0]
    for row in rows:
        ratio = row["num_instances"] / first["num_instances"]
        assert row["tokens_per_s"] <= 1.05 * first["tokens_per_s"] * ratio
        assert 0 <= row["communication_fraction"] < 1


@pytest.mark.parametrize("name", ["micro_batch", "cost_and_time", "memory_timeline", "scaling"])
def test_each_table_is_a_file(
    client: TestClient, answer: dict[str, Any], figures: dict[str, Any], name: str
) -> None:
    sent = client.get(f"/recommendations/{answer['id']}/plots/{name}.csv")
    assert sent.headers["content-type"] == "text/csv; charset=utf-8"
    assert f"{answer['id']}-{name}.csv" in sent.headers["content-disposition"]
    read = list(csv.DictReader(io.StringIO(sent.text)))
    rows = figures[name]["rows"]
    assert len(read) == len(rows)
    for row, line in zip(rows, read, strict=True):
        for column in figures[name]["columns"]:
            value = row[column["name"]]
            assert line[column["name"]] == ("" if value is None else str(value))


def test_the_page_has_a_table_behind_each_picture(
    client: TestClient, answer: dict[str, Any], figures: dict[str, Any]
) -> None:
    text = client.get(f"/recommendations/{answer['id']}/plots", headers=HTML).text
    drawn = [json.loads(unescape(each)) for each in re.findall(r'data-picture="([^"]*)"', text)]
    expected = [picture for figure in figures.values() for picture in figure["pictures"]]
    assert drawn == expected
    assert text.count("<tr>") == sum(len(each["rows"]) + 1 for each in figures.values())
    for address in re.findall(r'<a href="([^"]+)" download', text):
        assert client.get(address).status_code == 200
    library = re.search(r'data-plotly="([^"]+)"', text)
    assert library is not None
    assert urlsplit(library[1]).netloc == ""
    assert client.get(library[1]).headers["content-type"].startswith("text/javascript")


def test_an_answer_without_a_plan_has_no_figures(client: TestClient) -> None:
    question = {"model": {"size_b": 64.0}, "num_tokens": 10**12, "budget_usd": 1000}
    identity = client.post("/recommend", json=question).json()["id"]
    assert client.get(f"/recommendations/{identity}/plots").json()["figures"] == []
    page = client.get(f"/recommendations/{identity}/plots", headers=HTML)
    assert page.status_code == 200
    assert "nothing to draw" in page.text
    assert client.get(f"/recommendations/{identity}/plots/scaling.csv").status_code == 404


def test_unknown_figures_are_told(client: TestClient, answer: dict[str, Any]) -> None:
    sent = client.get(f"/recommendations/{answer['id']}/plots/nothing.csv")
    assert sent.status_code == 404
    assert "micro_batch" in sent.json()["detail"]
    assert client.get(f"/recommendations/{'0' * 24}/plots").status_code == 404

"""/openapi.json: its examples are answered, its errors happen and have the one shape."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import update

from app.access.guard import PUBLIC
from app.jobs.tables import Job
from app.main import create_app
from app.openapi_document import ERROR_SCHEMA, RAISED
from app.openapi_examples import BODIES, JOBS, QUERIES
from app.settings import Settings
from app.tables import StoredResult

QUESTION = {"model": {"size_b": 0.1}, "num_tokens": 20_000, "seq_len": 128, "instances": ["p5"]}
ROW = {"id": "mine-1", "source_url": "https://example.org/run/1"}
SECRET = "a-secret-of-a-test-with-more-than-32-characters"
# What AWS answers is in tests/integration/aws.
LOCAL = [place for place in BODIES if not place[1].startswith("/plans")]
Place = tuple[str, str]
Refusals = set[tuple[str, str, int]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose jobs stay queued, with room for few of them."""
    folder = tmp_path_factory.mktemp("openapi")
    settings = Settings(
        database_url=f"sqlite:///{folder}/test.db",
        worker="separate",
        jobs_dir=str(folder / "jobs"),
        max_backlog=3,
    )
    with TestClient(create_app(settings)) as mine:
        yield mine


@pytest.fixture(scope="module")
def document(service: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = service.get("/openapi.json").json()
    return found


@pytest.fixture(scope="module")
def recommendation(service: TestClient) -> str:
    identity: str = service.post("/recommend", json=QUESTION).json()["id"]
    return identity


def operations(document: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    for path, each in document["paths"].items():
        for method, operation in each.items():
            yield (method.upper(), path), operation


def assert_is_error(response: Response) -> None:
    """A body is as the shared schema says."""
    body = response.json()
    properties = ERROR_SCHEMA["properties"]
    kinds = {"string": str, "array": list}
    assert set(ERROR_SCHEMA["required"]) <= set(body) <= set(properties)
    assert all(isinstance(value, kinds[properties[name]["type"]]) for name, value in body.items())
    item = properties["errors"]["items"]
    for each in body.get("errors", ()):
        assert set(item["required"]) == set(each) == set(item["properties"])


def test_each_body_and_each_query_has_an_example(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert content["examples"] == BODIES[place]
        for each in operation.get("parameters", ()):
            assert each["in"] != "query" or each["example"] == QUERIES[place][each["name"]]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (place, name)
        for place in LOCAL
        for name, example in BODIES[place].items()
        if example["value"].get("backend") != "sagemaker"
    ],
)
def test_each_example_of_a_body_is_answered(
    service: TestClient, recommendation: str, place: Place, name: str
) -> None:
    body = dict(BODIES[place][name]["value"])
    if "recommendation_id" in body:
        body["recommendation_id"] = recommendation
    response = service.post(place[1], json=body)
    assert response.is_success, response.text
    if place == ("POST", "/recommend"):
        assert response.json()["best"] is not None


@pytest.mark.parametrize("place", [place for place in QUERIES if place[1] != "/plans"])
def test_each_example_of_a_query_is_answered(service: TestClient, place: Place) -> None:
    values = dict(QUERIES[place])
    assert service.get(place[1], params=values).status_code == 200  # type: ignore[arg-type]
    for name, value in values.items():
        found = service.get(place[1], params={name: str(value)})
        assert found.status_code == 200
        listed = {"/results": "results", "/accuracy": "rows"}.get(place[1])
        assert listed is None or found.json()[listed]


def refusals(service: TestClient, recommendation: str) -> Refusals:
    """What each route is sent that it has to refuse, and its status."""
    seen: Refusals = set()

    def refuse(status: int, place: str, address: str = "", body: Any = None) -> None:
        method, path = place.split()
        response = service.request(method, address or path, json=body)
        assert response.status_code == status, (place, response.text)
        assert_is_error(response)
        if status in (429, 503):
            assert response.headers["retry-after"].isdigit()
        seen.add((method, path, status))

    refuse_unknown(refuse, recommendation)
    refuse_conflicts(refuse, service, recommendation)
    return seen


def refuse_unknown(refuse: Any, recommendation: str) -> None:
    none = "0" * 24
    refuse(404, "POST /recommend", body={**QUESTION, "calibration_version": "0" * 12})
    refuse(404, "GET /recommendations/{identity}", f"/recommendations/{none}")
    refuse(404, "GET /recommendations/{identity}/plots", f"/recommendations/{none}/plots")
    table = f"/recommendations/{recommendation}/plots/none.csv"
    refuse(404, "GET /recommendations/{identity}/plots/{name}.csv", table)
    for path in ("/jobs", "/jobs/preview"):
        refuse(404, f"POST {path}", body={"recommendation_id": none})
    refuse(404, "GET /jobs/{identity}", f"/jobs/{none}")
    refuse(404, "GET /jobs/{identity}/events", f"/jobs/{none}/events")
    for deed in ("stop", "resume"):
        refuse(404, f"POST /jobs/{{identity}}/{deed}", f"/jobs/{none}/{deed}")


def refuse_conflicts(refuse: Any, service: TestClient, recommendation: str) -> None:
    app: Any = service.app
    job = {"recommendation_id": recommendation}
    answers = [
        service.post("/jobs", json={**job, "idempotency_key": str(number)}) for number in range(3)
    ]
    refuse(409, "POST /jobs", body={**job, "idempotency_key": "0", "kind": "probe"})
    refuse(429, "POST /jobs", body=job)
    identity = answers[0].json()["id"]
    refuse(409, "POST /jobs/{identity}/resume", f"/jobs/{identity}/resume")
    with app.state.database.writing() as session:
        session.execute(update(Job).where(Job.id == identity).values(status="failed"))
    refuse(409, "POST /jobs/{identity}/stop", f"/jobs/{identity}/stop")
    service.post("/jobs", json=job)
    refuse(429, "POST /jobs/{identity}/resume", f"/jobs/{identity}/resume")
    service.post("/results", json=ROW)
    refuse(409, "POST /results", body={**ROW, "gpus_total": 2})
    refuse(409, "GET /plans")
    refuse(409, "POST /plans/search", body={**job, "region": "us-west-2"})
    order = BODIES["POST", "/plans"]["offering"]["value"]
    refuse(409, "POST /plans", body={**order, **job})
    version = service.post("/recommend", json=QUESTION).json()["calibration_version"]
    with app.state.database.writing() as session:
        session.execute(update(StoredResult).values(notes="other"))
    refuse(409, "POST /recommend", body={**QUESTION, "calibration_version": version})


def test_each_refusal_is_documented_and_happens(document: dict[str, Any], tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        worker="separate",
        jobs_dir=str(tmp_path / "jobs"),
        max_backlog=3,
    )
    with TestClient(create_app(settings)) as mine:
        identity = mine.post("/recommend", json=QUESTION).json()["id"]
        seen = refusals(mine, identity)
    documented = {
        (*place, status)
        for place, operation in operations(document)
        for status in (404, 409, 429)
        if str(status) in operation["responses"]
    }
    # The rest is AWS's to refuse: tests/integration/aws.
    assert documented - seen == {("POST", "/plans/search", 404), ("POST", "/plans", 404)}
    assert seen <= documented


def test_bodies_that_are_wrong_or_too_long_are_refused(
    service: TestClient, document: dict[str, Any]
) -> None:
    for (method, path), operation in operations(document):
        responses = operation["responses"]
        assert ("413" in responses) == ("requestBody" in operation)
        if "requestBody" in operation:
            headers = {"content-type": "application/json"}
            long = service.request(method, path, content=b" " * 1_100_000, headers=headers)
            wrong = service.request(method, path, content=b"[1]", headers=headers)
            assert long.status_code == 413
            # Without AWS its routes refuse before they look.
            assert wrong.status_code == (422 if (method, path) in LOCAL else 409)
            assert_is_error(long)
            assert_is_error(wrong)


@pytest.mark.parametrize(
    ("place", "address", "headers"),
    [
        (("GET", "/results"), "/results?limit=0", {}),
        (("GET", "/accuracy"), f"/accuracy?gpu={'x' * 300}", {}),
        (("GET", "/jobs"), "/jobs?status=odd", {}),
        (("GET", "/jobs/{identity}/events"), "/jobs/x/events", {"last-event-id": "9" * 30}),
    ],
)
def test_queries_that_are_wrong_are_refused(
    service: TestClient,
    document: dict[str, Any],
    place: Place,
    address: str,
    headers: dict[str, str],
) -> None:
    method, path = place
    response = service.request(method, address, headers=headers)
    assert response.status_code == 422
    assert_is_error(response)
    assert "422" in document["paths"][path][method.lower()]["responses"]


def test_a_field_that_is_wrong_is_documented_where_there_is_one(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        fields = [each for each in operation.get("parameters", ()) if each["in"] != "path"]
        expected = bool(fields) or "requestBody" in operation or 422 in RAISED.get(place, ())
        assert ("422" in operation["responses"]) == expected


def test_all_errors_share_one_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["Error"] == ERROR_SCHEMA
    assert "HTTPValidationError" not in str(document)
    for _, operation in operations(document):
        assert "503" in operation["responses"]
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}
                assert ("headers" in response) == (status in ("429", "503"))


def test_without_a_database_routes_are_unavailable(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file where the folder should be")
    url = f"sqlite:///{tmp_path}/folder/test.db"
    bodies = {path: next(iter(BODIES[method, path].values())) for method, path in LOCAL}
    with TestClient(create_app(Settings(database_url=url, worker="separate"))) as client:
        found = [client.post(path, json=each["value"]) for path, each in bodies.items()]
        paths = ("/healthz", "/results", "/accuracy", "/jobs", "/recommendations/x", "/jobs/x")
        found += [client.get(path) for path in paths]
        for response in found:
            assert response.status_code == 503, response.request.url
            assert_is_error(response)


def test_where_keys_are_needed_the_document_says_how_to_send_one(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        host="0.0.0.0",  # noqa: S104 - a setting only: nothing listens
        secret_key=SECRET,
        worker="separate",
    )
    with TestClient(create_app(settings)) as client:
        document = client.get("/openapi.json").json()
        scheme = document["components"]["securitySchemes"]["key"]
        assert scheme == {"type": "http", "scheme": "bearer"}
        for (method, path), operation in operations(document):
            is_public = (method, path) in PUBLIC
            assert ("security" in operation) != is_public
            assert ("401" in operation["responses"]) != is_public
            response = client.request(method, path)
            assert (response.status_code == 401) != is_public
            if not is_public:
                assert_is_error(response)


def test_without_keys_the_document_asks_for_none(document: dict[str, Any]) -> None:
    assert "securitySchemes" not in document["components"]
    assert not any("security" in operation for _, operation in operations(document))


def test_examples_say_where_their_ids_come_from() -> None:
    for each in JOBS.values():
        assert "POST /recommend" in each["description"]

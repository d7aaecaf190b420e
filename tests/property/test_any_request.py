"""Whatever is sent, the answer is an answer or a refusal of the one shape; never a 500."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import InvalidField
from advisor.evidence import Evidence
from advisor.result import RESULT_COLUMNS, Result
from app.laws import refuse_contradiction
from app.main import create_app
from app.schemas import RecommendRequest, ResultRow
from app.settings import Settings

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=True)
    | st.text(max_size=20)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["llama-3.1-8b", "gpt2", "smollm-135m", "x"]) | SCALARS,
        "size_b": st.floats(0.05, 80) | SCALARS,
        "config": ANYTHING,
    },
)
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "num_tokens": st.sampled_from([1, 10**6, 10**15, 1e9]),
    "seq_len": st.sampled_from([1, 7, 1024, 2**22]),
    "global_batch_tokens": st.sampled_from([1, 2**16, 2**30]),
    "budget_usd": st.sampled_from([0.01, 100, 1e10]),
    "deadline_hours": st.sampled_from([0.001, 5, 17472]),
    "micro_batch": st.sampled_from([1, 3, 1024]),
    "instances": st.lists(st.sampled_from(["p5", "p4d", "g6e", "p6e-gb200"]), min_size=1),
    "min_instances": st.sampled_from([1, 2]),
    "max_instances": st.sampled_from([1, 3, 64]),
    "max_oom_probability": st.sampled_from([1e-300, 0.5, 0.999999]),
    "pricing": st.sampled_from(["spot", "on_demand", {"usd_per_instance_hour": 1e-6}]),
    "precision": st.sampled_from(["bf16", "fp8", "mxfp8", "nvfp4"]),
    "sharding": st.sampled_from(["full", "hybrid", "none"]),
    "objective": st.sampled_from(["cheapest", "fastest", "most_tokens"]),
    "training": st.sampled_from(["pretrain", "finetune"]),
}
REQUESTS = st.fixed_dictionaries(
    {"model": MODELS | SCALARS},
    optional={
        name: LIKELY.get(name, st.booleans()) | SCALARS
        for name in RecommendRequest.model_fields
        if name != "model"
    },
)
SHAPED = st.fixed_dictionaries(
    {"model": st.sampled_from([{"size_b": 0.1}, {"size_b": 72}, {"name": "gpt2"}])},
    optional=LIKELY,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path_factory.mktemp('any')}/test.db"
    with TestClient(create_app(Settings(database_url=url))) as shared:
        yield shared


def assert_well_formed(client: TestClient, body: Any) -> None:
    sent = json.dumps(body).encode()
    response = client.post("/recommend", content=sent, headers={"content-type": "application/json"})
    assert response.status_code in (200, 422), response.text
    answer = response.json()
    if response.status_code == 422:
        assert answer["field"]
        assert answer["detail"]
    else:
        assert (answer["best"] is None) == (answer["nearest_miss"] is not None)


@given(body=REQUESTS | ANYTHING)
@settings(max_examples=150, deadline=None)
def test_any_json_as_a_question(client: TestClient, body: Any) -> None:
    assert_well_formed(client, body)


@given(body=SHAPED)
@settings(max_examples=60, deadline=None)
def test_any_sensible_question(client: TestClient, body: Any) -> None:
    assert_well_formed(client, body)


@given(query=st.dictionaries(st.sampled_from([*LIKELY, "model_name", "x"]), st.text(max_size=30)))
@settings(max_examples=100, deadline=None)
def test_any_text_in_the_form(client: TestClient, query: dict[str, str]) -> None:
    response = client.get("/", params=query)
    assert response.status_code in (200, 422), response.text


def column(name: str) -> st.SearchStrategy[Any]:
    kinds = str(Result.__dataclass_fields__[name].type)
    if "bool" in kinds:
        return st.booleans()
    if "int" in kinds:
        return st.integers(1, 10**12 - 1) | st.sampled_from([1, 8, 4096])
    if "float" in kinds:
        return st.floats(1e-9, 1e14) | st.sampled_from([1.0, 40.0])
    if name in ("activation_checkpointing", "sharding"):
        return st.sampled_from(["none", "full"])
    if name == "peak_mem_kind":
        return st.sampled_from(["reserved", "active"])
    return st.text(max_size=20) | st.sampled_from(["fsdp2", "H100", "bf16", "llama", "swiglu"])


ROWS = st.fixed_dictionaries(
    {"id": st.just("mine-1"), "source_url": st.just("x"), "gpu": st.sampled_from(["H100", "B200"])},
    optional={
        name: column(name)
        for name in RESULT_COLUMNS
        if name not in ("id", "source_url", "gpu", "oom")
    },
)


@given(row=ROWS)
@settings(max_examples=300, deadline=None)
def test_any_valid_row_can_be_judged_and_calibrated_on(row: dict[str, Any]) -> None:
    result = Result(**ResultRow.model_validate(row).model_dump())
    try:
        refuse_contradiction(result, field="rows.0")
    except InvalidField:
        return
    evidence = Evidence.from_results([result])
    residuals = (*evidence.memory.values(), evidence.throughput)
    assert all(math.isfinite(each.factor) and math.isfinite(each.interval) for each in residuals)

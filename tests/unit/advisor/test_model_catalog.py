"""The shipped models are read strictly and found by every usual spelling."""

from importlib import resources

import pytest

from advisor.errors import InvalidField, UnknownName
from advisor.model_catalog import ModelCatalogError, find_model, load_models, parse_models

TEXT = resources.files("advisor").joinpath("data", "models.csv").read_text(encoding="utf-8")
HEADER, FIRST = TEXT.splitlines()[:2]


@pytest.mark.parametrize(
    "name",
    [
        "llama-3.1-8b",
        "Llama-3.1-8B",
        " LLAMA 3.1 8b ",
        "llama3.1-8b",
        "llama_3.1_8b",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "llama-3.1-8b-instruct",
    ],
)
def test_spellings_of_one_model(name: str) -> None:
    assert find_model(name).name == "llama-3.1-8b"


def test_every_model_is_found_by_its_name_and_id() -> None:
    for name, model in load_models().items():
        assert find_model(name) is model
        assert find_model(model.hf_id) is model
        assert find_model(model.hf_id.upper()) is model


def test_sizes_that_differ_in_a_dot_are_not_mixed_up() -> None:
    assert find_model("llama-3-8b").name == "llama-3-8b"
    assert find_model("qwen2-7b").shape.family == "qwen2"
    with pytest.raises(UnknownName):
        find_model("llama-31-8b")


def test_unknown_name_has_close_matches() -> None:
    with pytest.raises(UnknownName, match="did you mean") as caught:
        find_model("lama-3.1-8b")
    assert "llama-3.1-8b" in caught.value.matches
    assert caught.value.field == "model.name"
    with pytest.raises(UnknownName) as caught:
        find_model("ministral")
    assert "ministral-8b" in caught.value.matches


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_what_is_no_name_is_invalid(name: str) -> None:
    with pytest.raises(InvalidField, match=r"^model\.name"):
        find_model(name)


@pytest.mark.parametrize("name", ["///", "\ud800", "b", "8", "llama"])
def test_odd_names_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        find_model(name)


def test_facts_beside_the_shape() -> None:
    model = find_model("opt-350m")
    assert model.shape.embedding_size == 512
    assert not model.shape.final_norm
    assert model.hf_id == "facebook/opt-350m"
    assert not model.is_published_count
    assert "recalled" in model.notes
    assert find_model("llama-3.1-8b").is_published_count


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name,family", "name,colour", "missing or unknown columns: colour, family"),
        ("name,family", "name,name", "columns: family"),
        (",4096,", ",4096.5,", "hidden_size is not a whole number"),
        (",4096,", ",-4096,", "hidden_size is not a whole number"),
        (",4096,", ",,", "hidden_size is not a whole number: ''"),
        (",false,", ",no,", "neither true nor false"),
        (",rmsnorm,", ",batchnorm,", "norm cannot be 'batchnorm'"),
        (",12000000,", ",1e7,", "rope_theta is not a number"),
        (",32,8,", ",32,7,", "must divide num_heads"),
        ("apertus-8b,", "", "more or fewer cells"),
    ],
)
def test_wrong_rows_are_refused(old: str, new: str, message: str) -> None:
    text = f"{HEADER}\n{FIRST}\n"
    assert parse_models(text)
    assert old in text
    with pytest.raises(ModelCatalogError, match=message):
        parse_models(text.replace(old, new, 1))


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(ModelCatalogError, match="there twice"):
        parse_models(f"{HEADER}\n{FIRST}\n{FIRST}\n")

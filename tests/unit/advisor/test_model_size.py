"""A shape from a size alone: within a percent, sane, and the same each time."""

import math

import pytest

from advisor.errors import InvalidField
from advisor.model_catalog import load_models
from advisor.model_size import ASPECTS, aspect_of, shape_from_size

SIZES = [0.1 * 720 ** (step / 300) for step in range(300)] + [
    *(0.1, 0.125, 0.5, 0.999999, 1, 1.5, 3, 3.999999, 4, 7, 8, 13, 14, 20, 32, 34, 64, 70, 72)
]


def test_every_size_is_met_within_a_percent_by_a_sane_shape() -> None:
    for size_b in SIZES:
        shape = shape_from_size(size_b).shape
        assert abs(shape.num_parameters / (size_b * 1e9) - 1) <= 0.01, size_b
        assert shape.hidden_size % 128 == 0
        assert shape.q_size == shape.hidden_size
        assert shape.head_dim in (64, 128)
        assert shape.num_kv_heads in (4, 8)
        assert shape.ffn_size % 64 == 0
        assert 2 <= shape.ffn_size / shape.hidden_size <= 6
        aspect = shape.hidden_size / shape.num_layers
        assert abs(math.log(aspect / aspect_of(size_b))) <= math.log(1.6)


def test_sizes_of_llama_give_llama() -> None:
    for name, size_b in (("llama-3.1-8b", 8.030261248), ("llama-3.1-70b", 70.553706496)):
        found, published = shape_from_size(size_b).shape, load_models()[name].shape
        for dimension in ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "ffn_size"):
            assert getattr(found, dimension) == getattr(published, dimension)
        assert found.num_parameters == published.num_parameters


def test_aspects_are_those_of_the_catalogue() -> None:
    for name, size_b, aspect in ASPECTS:
        model = load_models()[name]
        assert size_b * 1e9 == pytest.approx(model.num_parameters_exact, rel=1e-9)
        assert aspect == model.shape.hidden_size / model.shape.num_layers
        assert aspect_of(size_b) == pytest.approx(aspect)
    assert aspect_of(0.1) == ASPECTS[0][2]
    assert aspect_of(72) == ASPECTS[-1][2]


def test_small_models_have_a_small_vocabulary_and_a_tied_head() -> None:
    assert shape_from_size(0.9).shape.vocab_size == 49_152
    assert shape_from_size(1).shape.vocab_size == 128_256
    assert shape_from_size(3.9).shape.tied_embeddings
    assert not shape_from_size(4).shape.tied_embeddings


def test_rules_say_what_was_done() -> None:
    sized = shape_from_size(14)
    text = " ".join(sized.rules)
    for value in ("4,608", "46 layers", "16,640", "128,256", f"{sized.shape.num_parameters:,}"):
        assert value in text
    assert sized == shape_from_size(14.0)


@pytest.mark.parametrize(
    "size_b", [0, -1, 0.09, 72.1, 1e300, 10**400, float("nan"), float("inf"), True, "8", None, [8]]
)
def test_what_is_no_size_is_refused_at_its_field(size_b: object) -> None:
    with pytest.raises(InvalidField) as caught:
        shape_from_size(size_b)  # type: ignore[arg-type]  # the point of the test
    assert caught.value.field == "model.size_b"

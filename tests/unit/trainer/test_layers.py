"""Which layers are of which kind, what attention may see, and parts that few models have."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers.activations import ACT2CLS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from trainer.build import build_model
from trainer.config import config_of
from trainer.errors import ConfigError, Unsupported
from trainer.initial import initialise
from trainer.kernels import PORTABLE
from trainer.layers import blocks_differ, masks, rotated_layers, slopes, windowed_layers
from trainer.model import Model, Norm, Xielu, num_parameters
from trainer.settings import ModelSettings

SMALL = ModelSettings(num_layers=2, max_position=64, vocab_size=50)


@pytest.mark.parametrize(
    ("num_layers", "windowed", "whole"),
    [
        (26, 13, [1, 3, 5]),  # Gemma 2 2B: every second
        (18, 15, [5, 11, 17]),  # Gemma 3 270M: every sixth
        (34, 29, [5, 11, 17]),  # Gemma 3 4B: every sixth, and four more
        (32, 24, [3, 7, 11]),  # OLMo 3 7B: every fourth
    ],
)
def test_every_kth_layer_sees_everything(num_layers: int, windowed: int, whole: list[int]) -> None:
    model = replace(SMALL, num_layers=num_layers, sliding_window=8, num_windowed_layers=windowed)
    found = windowed_layers(model)
    assert sum(found) == windowed
    assert [index for index, is_windowed in enumerate(found) if not is_windowed][:3] == whole


def test_windows_are_in_all_layers_or_none_unless_counted() -> None:
    assert windowed_layers(SMALL) == (False, False)
    assert windowed_layers(replace(SMALL, sliding_window=8)) == (True, True)
    assert not blocks_differ(replace(SMALL, sliding_window=8))
    assert blocks_differ(replace(SMALL, sliding_window=8, num_windowed_layers=1))


def test_layers_that_are_not_rotated() -> None:
    model = replace(SMALL, num_layers=36, num_unrotated_layers=9)
    assert [i for i, rotates in enumerate(rotated_layers(model)) if not rotates][:3] == [3, 7, 11]


def test_a_number_that_is_no_pattern_is_refused() -> None:
    model = replace(SMALL, num_layers=10, num_unrotated_layers=4)
    with pytest.raises(Unsupported, match="4 unrotated layers of 10"):
        rotated_layers(model)


def test_a_window_bounds_what_is_seen_and_documents_too() -> None:
    like = torch.zeros(1)
    everything, near = masks(replace(SMALL, sliding_window=2), None, 4, like)
    assert everything is None
    assert near is not None
    assert near[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    documents = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    documents[..., 2:, :2] = False
    _, near = masks(replace(SMALL, sliding_window=2), documents, 4, like)
    assert near is not None
    assert near[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert masks(replace(SMALL, sliding_window=4), None, 4, like) == (None, None)


def model_of(settings: ModelSettings) -> Model:
    model = Model(settings)
    model.make_tables(torch.device("cpu"))
    initialise(model, seed=3)
    return model.eval()


def test_what_lies_before_the_window_changes_nothing() -> None:
    model = model_of(replace(SMALL, num_layers=1, sliding_window=3))
    first = torch.tensor([[1, 2, 3, 4, 5, 6]])
    second = torch.tensor([[9, 8, 7, 4, 5, 6]])
    with torch.no_grad():
        one, other = model(first), model(second)
    torch.testing.assert_close(one[0, -1], other[0, -1])
    assert not torch.allclose(one[0, 3], other[0, 3])


@pytest.mark.parametrize("num_heads", [4, 12, 16])
def test_slopes_are_those_of_the_published_code(num_heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 5), num_heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(torch.tensor(slopes(num_heads)), theirs)


def test_xielu_is_that_of_the_published_code() -> None:
    theirs = ACT2CLS["xielu"](dtype=torch.float32)
    settings = replace(SMALL, gated_mlp=False, activation="xielu", activation_parameters=2)
    ours = model_of(settings).blocks[0].mlp.activation  # type: ignore[union-attr]  # it is a Block
    assert isinstance(ours, Xielu)
    x = torch.linspace(-3, 3, 101)
    torch.testing.assert_close(ours(x), theirs._xielu_python(x))


def test_each_head_has_a_weight_of_its_own() -> None:
    settings = replace(SMALL, norm="layernorm", qk_norm=True, qk_norm_kind="each_head")
    norm = Norm(8, settings, PORTABLE, bias=False, heads=3)
    weight = torch.arange(24.0)
    with torch.no_grad():
        norm.weight.copy_(weight)  # type: ignore[union-attr]  # it has one
    x = torch.randn(2, 5, 3, 8)
    for head in range(3):
        alone = torch.nn.functional.layer_norm(x[:, :, head], (8,), weight[8 * head : 8 * head + 8])
        torch.testing.assert_close(norm(x)[:, :, head], alone)


def test_an_embedding_narrower_than_the_model_is_projected_in_and_out() -> None:
    plain = replace(SMALL, tied_embeddings=True, final_norm=False)
    narrow = replace(plain, embedding_size=16)
    width, rows = plain.hidden_size, plain.vocab_size
    saved = rows * (width - 16) - 2 * width * 16
    assert num_parameters(Model(plain)) - num_parameters(Model(narrow)) == saved
    assert model_of(narrow)(torch.tensor([[1, 2, 3]])).shape == (1, 3, rows)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation": "xielu"}, "activation xielu has not 0 parameters"),
        ({"activation_parameters": "2"}, "activation silu has not 2 parameters"),
        ({"num_windowed_layers": "9", "sliding_window": "4"}, "num_windowed_layers 9"),
    ],
)
def test_contradictions_are_named(changes: dict[str, str], words: str) -> None:
    strings = {name: str(value) for name, value in model_strings(SMALL).items()}
    with pytest.raises(ConfigError, match=words):
        config_of({**strings, **changes})


def model_strings(model: ModelSettings) -> dict[str, Any]:
    described = config_of({}).as_strings()
    names = [name for name in described if hasattr(model, name)]
    return {
        name: "" if getattr(model, name) is None else str(getattr(model, name)).lower()
        for name in names
    }


def test_capped_scores_are_refused_before_anything_starts() -> None:
    config = config_of({})
    with pytest.raises(Unsupported, match="attn_softcap"):
        build_model(replace(config, model=replace(config.model, attn_softcap=50.0)))

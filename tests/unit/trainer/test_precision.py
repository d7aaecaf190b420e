"""Low precision trains where it can, and is refused by name where it cannot."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from trainer.errors import Unsupported
from trainer.initial import initialise
from trainer.model import Model
from trainer.precision import MxLinear, apply_precision, use_transformer_engine
from trainer.settings import ModelSettings, PlanSettings

CPU = torch.device("cpu")
SHAPE = ModelSettings(
    hidden_size=64,
    num_layers=1,
    num_heads=2,
    num_kv_heads=1,
    head_dim=32,
    ffn_size=96,
    vocab_size=128,
    max_position=64,
    tied_embeddings=False,
)


def losses(plan: PlanSettings) -> list[float]:
    model = Model(SHAPE)
    initialise(model, seed=0)
    model.make_tables(CPU)
    apply_precision(model.blocks, plan)
    model.to(torch.bfloat16)
    tokens = torch.arange(33).expand(2, 33).contiguous()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    found = []
    for _ in range(8):
        loss = model(tokens[:, :-1], tokens[:, 1:]) / 64
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


@pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
@pytest.mark.parametrize("precision", ["fp8", "mxfp8"])
def test_emulated_low_precision_follows_bf16(precision: str) -> None:
    exact = losses(PlanSettings(precision="bf16"))
    low = losses(PlanSettings(precision=precision, low_precision_emulation=True))
    assert low[-1] < 0.8 * low[0]
    assert low == pytest.approx(exact, rel=0.05)
    assert low != exact


@pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
def test_only_fitting_layers_of_the_blocks_are_changed() -> None:
    model = Model(replace(SHAPE, ffn_size=90))
    apply_precision(model.blocks, PlanSettings(precision="mxfp8", low_precision_emulation=True))
    block = model.blocks[0]
    assert isinstance(block.attn.q, MxLinear)
    assert not isinstance(block.mlp.up, MxLinear)


@pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
@pytest.mark.parametrize("recipe", ["rowwise", "rowwise_with_gw_hp"])
def test_emulated_scales_by_row_follow_bf16(recipe: str) -> None:
    exact = losses(PlanSettings(precision="bf16"))
    plan = PlanSettings(precision="fp8", fp8_recipe=recipe, low_precision_emulation=True)
    low = losses(plan)
    assert low == pytest.approx(exact, rel=0.05)
    assert low != exact
    assert low != losses(replace(plan, fp8_recipe="tensorwise"))


@pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
def test_weights_with_scales_by_row_are_not_gathered_in_fp8() -> None:
    plan = PlanSettings(precision="fp8", fp8_recipe="rowwise", fp8_gather=True)
    with pytest.raises(Unsupported, match="fp8_gather is for fp8_recipe tensorwise"):
        apply_precision(Model(SHAPE).blocks, plan)


def test_nvfp4_without_its_package_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="nvfp4 needs transformer-engine"):
        apply_precision(Model(SHAPE).blocks, PlanSettings(precision="nvfp4"))


class FakeEngine:
    """As much of TransformerEngine as layers need, in full precision; notes its contexts."""

    def __init__(self) -> None:
        self.entered: list[Any] = []

    class Linear(torch.nn.Linear):
        def __init__(self, *sizes: int, params_dtype: torch.dtype, **options: Any) -> None:
            super().__init__(*sizes, dtype=params_dtype, **options)

    @contextmanager
    def autocast(self, *, enabled: bool, recipe: Any) -> Iterator[None]:
        assert enabled
        self.entered.append(recipe)
        yield


class OlderEngine(FakeEngine):
    """From before the context was renamed."""

    autocast = None  # type: ignore[assignment]  # it has no such name

    @contextmanager
    def fp8_autocast(self, *, enabled: bool, fp8_recipe: Any) -> Iterator[None]:
        assert enabled
        self.entered.append(fp8_recipe)
        yield


class Recipes:
    class NVFP4BlockScaling:
        pass


@pytest.mark.parametrize("engine", [FakeEngine(), OlderEngine()], ids=["today", "before"])
def test_nvfp4_layers_keep_their_names_and_compute_in_their_recipe(engine: FakeEngine) -> None:
    model = Model(replace(SHAPE, ffn_size=90, qkv_bias=True))
    before = {name: tuple(p.shape) for name, p in model.named_parameters()}
    use_transformer_engine(model.blocks, engine, Recipes())
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == before
    assert isinstance(model.blocks[0].attn.q, engine.Linear)
    assert not isinstance(model.blocks[0].mlp.up, engine.Linear)
    initialise(model, seed=0)
    model.make_tables(CPU)
    model(torch.zeros((1, 8), dtype=torch.int64))
    assert [type(recipe) for recipe in engine.entered] == 4 * [Recipes.NVFP4BlockScaling]


def test_an_engine_without_nvfp4_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="no NVFP4BlockScaling"):
        use_transformer_engine(Model(SHAPE).blocks, FakeEngine(), object())

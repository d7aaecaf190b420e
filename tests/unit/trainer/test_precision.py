"""Low precision trains where it can, and is refused by name where it cannot."""

from dataclasses import replace

import pytest
import torch

from trainer.errors import Unsupported
from trainer.initial import initialise
from trainer.model import Model
from trainer.precision import MxLinear, apply_precision, check_build, check_precision
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
@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_a_cpu_refuses_low_precision_by_name(precision: str) -> None:
    with pytest.raises(Unsupported, match=f"precision {precision} needs a CUDA GPU"):
        check_precision(PlanSettings(precision=precision), CPU)


def test_a_cpu_takes_bf16_and_fp32() -> None:
    for precision in ("bf16", "fp32"):
        check_precision(PlanSettings(precision=precision), CPU)


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 9), ["sm_80"], True),
        ((10, 0), ["sm_80", "sm_90"], False),
        ((10, 0), ["sm_90", "compute_90"], True),
        ((10, 3), ["sm_100"], True),
        ((10, 3), ["sm_100a"], False),
        ((10, 0), ["sm_100a"], True),
        ((12, 0), ["sm_100", "sm_103a"], False),
    ],
)
def test_a_build_without_code_for_the_gpu_is_refused(
    capability: tuple[int, int], built_for: list[str], runs: bool
) -> None:
    if runs:
        check_build(capability, built_for, "a GPU")
        return
    with pytest.raises(Unsupported, match=f"no code for a GPU .sm_{capability[0]}{capability[1]}"):
        check_build(capability, built_for, "a GPU")

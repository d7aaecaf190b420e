"""AdamW with its kinds of state, the learning rate, clipping."""

import copy

import pytest
import torch
from torch import nn

from trainer.optimizer import (
    AdamWBf16,
    clip_gradients,
    create_states,
    learning_rate,
    make_optimizer,
    parameter_groups,
    set_learning_rate,
)
from trainer.settings import RunSettings

RUN = RunSettings(learning_rate=1e-2, weight_decay=0.1)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 8))


def steps(model: nn.Module, kind: str, count: int) -> list[float]:
    optimizer = make_optimizer(model, kind, RUN)
    inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    losses = []
    for _ in range(count):
        loss = (model(inputs) - inputs[:, :8]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    return losses


def test_bf16_states_follow_fp32_states() -> None:
    exact, rounded = small(), small()
    one, two = steps(exact, "adamw", 30), steps(rounded, "adamw_bf16", 30)
    assert two[-1] < 0.5 * two[0]
    assert two[-1] == pytest.approx(one[-1], rel=0.05)
    assert one != two


def test_bf16_states_are_bf16_and_one_step_is_adamws() -> None:
    exact, rounded = small(), small()
    steps(exact, "adamw", 1)
    steps(rounded, "adamw_bf16", 1)
    for one, two in zip(exact.parameters(), rounded.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    optimizer = make_optimizer(rounded, "adamw_bf16", RUN)
    create_states(optimizer)
    kinds = {
        state[name].dtype
        for state in optimizer.state.values()
        for name in ("exp_avg", "exp_avg_sq")
    }
    assert kinds == {torch.bfloat16}


@pytest.mark.parametrize("kind", ["adamw", "adamw_bf16"])
def test_creating_states_changes_nothing(kind: str) -> None:
    model, early = small(), small()
    optimizer = make_optimizer(early, kind, RUN)
    create_states(optimizer)
    assert len(optimizer.state) == len(list(early.parameters()))
    for one, two in zip(model.parameters(), early.parameters(), strict=True):
        assert torch.equal(one, two)
        assert two.grad is None
    before = copy.deepcopy(early.state_dict())
    for parameter, twin in zip(early.parameters(), model.parameters(), strict=True):
        parameter.grad = torch.ones_like(parameter)
        twin.grad = torch.ones_like(twin)
    optimizer.step()
    make_optimizer(model, kind, RUN).step()
    for one, two in zip(model.parameters(), early.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    assert any(not torch.equal(before[name], now) for name, now in early.state_dict().items())


def test_norms_and_biases_do_not_decay() -> None:
    decayed, kept = parameter_groups(small(), 0.1)
    assert {parameter.ndim for parameter in decayed["params"]} == {2}
    assert {parameter.ndim for parameter in kept["params"]} == {1}
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)


def test_large_parameters_are_updated_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, sliced = small(), small()
    steps(whole, "adamw_bf16", 3)
    monkeypatch.setattr("trainer.optimizer.SLICE_ELEMENTS", 100)
    steps(sliced, "adamw_bf16", 3)
    for one, two in zip(whole.parameters(), sliced.parameters(), strict=True):
        assert torch.equal(one, two)


def test_cosine_warms_up_peaks_and_ends_low() -> None:
    run = RunSettings(learning_rate=1.0, warmup_steps=10, min_learning_rate_fraction=0.1)
    rates = [learning_rate(step, 100, run) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.55)
    assert 0.1 < rates[99] < 0.102
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_wsd_is_stable_until_its_decay() -> None:
    run = RunSettings(
        learning_rate=1.0, schedule="wsd", decay_fraction=0.2, min_learning_rate_fraction=0.0
    )
    rates = [learning_rate(step, 100, run) for step in range(100)]
    assert set(rates[:81]) == {1.0}
    assert rates[90] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.05)


def test_the_rate_is_set_in_all_groups_and_in_tensors() -> None:
    optimizer = AdamWBf16(
        parameter_groups(small(), 0.1), lr=1.0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
    )
    optimizer.param_groups[0]["lr"] = torch.tensor(1.0)
    set_learning_rate(optimizer, 0.25)
    assert [float(group["lr"]) for group in optimizer.param_groups] == [0.25, 0.25]


def test_gradients_are_clipped_to_the_norm_or_left() -> None:
    model = small()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert float(clip_gradients(model, 0.0)) == pytest.approx(count**0.5)
    assert float(clip_gradients(model, 1.0)) == pytest.approx(count**0.5)
    assert float(clip_gradients(model, 0.0)) == pytest.approx(1.0, rel=1e-3)

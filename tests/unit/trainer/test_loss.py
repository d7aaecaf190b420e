"""The sliced loss equals the plain one, value and gradients."""

import pytest
import torch

from trainer.loss import IGNORE_INDEX, LossSettings, linear_cross_entropy


def both(settings: LossSettings, *, bias: bool) -> list[list[torch.Tensor]]:
    """[loss, gradients…] of the plain and of the sliced loss."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(37, 16), torch.randn(50, 16)
    targets = torch.randint(50, (37,))
    targets[::5] = IGNORE_INDEX
    results = []
    for chunks in (1, settings.chunks):
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        b = torch.linspace(-1, 1, 50).requires_grad_() if bias else None
        chosen = LossSettings(chunks=chunks, z_loss=settings.z_loss, softcap=settings.softcap)
        loss = linear_cross_entropy(h, w, b, targets, chosen)
        (0.5 * loss).backward()
        grads = [h.grad, w.grad] + ([b.grad] if b is not None else [])
        results.append([loss.detach(), *(g for g in grads if g is not None)])
    return results


@pytest.mark.parametrize("chunks", [2, 8, 100])
@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("bias", [False, True])
def test_slices_change_nothing(
    chunks: int, z_loss: float, softcap: float | None, bias: bool
) -> None:
    plain, sliced = both(LossSettings(chunks=chunks, z_loss=z_loss, softcap=softcap), bias=bias)
    assert len(plain) == (4 if bias else 3)
    for one, other in zip(plain, sliced, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_plain_loss_is_torchs() -> None:
    torch.manual_seed(1)
    hidden, weight, targets = torch.randn(9, 4), torch.randn(7, 4), torch.randint(7, (9,))
    found = linear_cross_entropy(hidden, weight, None, targets, LossSettings())
    wanted = torch.nn.functional.cross_entropy(hidden @ weight.t(), targets, reduction="sum")
    torch.testing.assert_close(found, wanted)


def test_ignored_tokens_get_no_gradient() -> None:
    hidden = torch.randn(8, 4, requires_grad=True)
    targets = torch.tensor([1, IGNORE_INDEX] * 4)
    settings = LossSettings(chunks=4, z_loss=0.1)
    linear_cross_entropy(hidden, torch.randn(5, 4), None, targets, settings).backward()
    assert hidden.grad is not None
    assert torch.equal(hidden.grad[1::2], torch.zeros(4, 4))
    assert (hidden.grad[::2].abs().sum(dim=1) > 0).all()


def test_z_loss_punishes_large_partitions() -> None:
    hidden, weight, targets = torch.ones(2, 3), torch.ones(4, 3), torch.tensor([0, 1])
    plain = linear_cross_entropy(hidden, weight, None, targets, LossSettings())
    with_z = linear_cross_entropy(hidden, weight, None, targets, LossSettings(z_loss=0.5))
    partition = 3 + torch.log(torch.tensor(4.0))
    torch.testing.assert_close(with_z - plain, 2 * 0.5 * partition.square())

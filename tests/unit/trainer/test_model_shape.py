"""The model has the published number of parameters, and looks only back."""

import pytest
import torch

from trainer.errors import Unsupported
from trainer.initial import initialise
from trainer.kernels import CUDA_SAVED_TENSORS, PORTABLE
from trainer.loss import LossSettings
from trainer.model import Model, num_parameters
from trainer.rope import frequencies, tables
from trainer.settings import ModelSettings


def shape(widths: str, vocab_size: int, **changes: object) -> ModelSettings:
    """widths: hidden layers heads kv_heads head_dim ffn."""
    names = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "ffn_size")
    sizes = dict(zip(names, map(int, widths.split()), strict=True))
    return ModelSettings(**sizes, vocab_size=vocab_size, **changes)  # type: ignore[arg-type]


LAYER_NORM = {"norm": "layernorm", "qkv_bias": True, "attn_out_bias": True, "mlp_bias": True}
PLAIN = {"gated_mlp": False, "activation": "gelu", **LAYER_NORM}
# Counts of the files on huggingface.co (safetensors metadata of each model's page).
PUBLISHED = {
    "llama-3.1-8b": (
        shape("4096 32 32 8 128 14336", 128256, tied_embeddings=False),
        8030261248,
    ),
    "llama-3.2-1b": (shape("2048 16 32 8 64 8192", 128256), 1235814400),
    "smollm-135m": (shape("576 30 9 3 64 1536", 49152), 134515008),
    "qwen2.5-7b": (
        shape("3584 28 28 4 128 18944", 152064, tied_embeddings=False, qkv_bias=True),
        7615616512,
    ),
    "qwen3-4b": (shape("2560 36 32 8 128 9728", 151936, qk_norm=True), 4022468096),
    "gpt2-xl": (
        shape("1600 48 25 25 64 6400", 50257, positions="learned", max_position=1024, **PLAIN),
        1557611200,
    ),
    "pythia-1.4b": (
        shape(
            "2048 24 16 16 128 8192",
            50304,
            tied_embeddings=False,
            parallel_block="separate",
            **PLAIN,
        ),
        1414647808,
    ),
    "opt-1.3b": (
        shape(
            "2048 24 32 32 64 8192",
            50272,
            positions="learned",
            max_position=2048,
            extra_positions=2,
            **PLAIN,
        ),
        1315758080,
    ),
    "olmo-2-1b": (
        shape(
            "2048 16 16 16 128 8192",
            100352,
            tied_embeddings=False,
            qk_norm=True,
            qk_norm_kind="all",
            norm_layout="post",
        ),
        1484916736,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_the_published_one(name: str) -> None:
    settings, count = PUBLISHED[name]
    with torch.device("meta"):
        assert num_parameters(Model(settings, num_positions=8)) == count


def test_the_default_model_has_about_a_million_parameters() -> None:
    with torch.device("meta"):
        assert 0.9e6 < num_parameters(Model(ModelSettings())) < 1.1e6


def tiny(**changes: object) -> Model:
    kernels = changes.pop("kernels", PORTABLE)
    settings = shape("32 2 4 2 8 48", 64, max_position=64, **changes)
    model = Model(settings, kernels=kernels)  # type: ignore[arg-type]  # a test's shorthand
    initialise(model, seed=0)
    model.make_tables(torch.device("cpu"))
    return model


LAYOUTS: list[dict[str, object]] = [
    {},
    {"positions": "learned", **PLAIN},
    {"norm": "layernorm_no_bias", "parallel_block": "shared"},
    {"norm": "nonparametric", "parallel_block": "separate", "rotary_fraction": 0.5},
    {"norm_layout": "post", "qk_norm": True, "qk_norm_kind": "all"},
    {"norm_layout": "sandwich", "qk_norm": True, "logit_softcap": 30.0, "embedding_scale": 5.7},
    {"activation": "relu2", "gated_mlp": False, "head_bias": True, "tied_embeddings": False},
]


@pytest.mark.parametrize("changes", LAYOUTS, ids=str)
def test_a_token_sees_only_what_came_before(changes: dict[str, object]) -> None:
    model = tiny(**changes)
    tokens = torch.randint(64, (2, 12), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 8] = (other[:, 8] + 1) % 64
    with torch.no_grad():
        one, two = model(tokens), model(other)
    torch.testing.assert_close(one[:, :8], two[:, :8])
    assert not torch.allclose(one[:, 8:], two[:, 8:])


def test_a_mask_separates_documents() -> None:
    model = tiny()
    tokens = torch.randint(64, (1, 8), generator=torch.Generator().manual_seed(0))
    apart = torch.ones(8, 8).tril().bool()
    apart[4:, :4] = False
    with torch.no_grad():
        masked = model(tokens, mask=apart.expand(1, 1, 8, 8))
        first = model(tokens[:, :4])
    torch.testing.assert_close(masked[:, :4], first)
    assert not torch.allclose(masked[:, 4:], model(tokens)[:, 4:])


def test_every_parameter_gets_a_gradient_and_slices_change_nothing() -> None:
    tokens = torch.randint(64, (2, 12), generator=torch.Generator().manual_seed(0))
    grads = []
    for chunks in (1, 5):
        model = tiny(logit_softcap=30.0)
        model.loss_settings = LossSettings(chunks=chunks, softcap=30.0, z_loss=1e-4)
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        grads.append({name: p.grad for name, p in model.named_parameters()})
    for name, grad in grads[0].items():
        assert grad is not None
        assert grad.abs().sum() > 0, name
        torch.testing.assert_close(grad, grads[1][name], rtol=1e-4, atol=1e-5)


def test_weights_depend_on_seed_and_name_alone() -> None:
    one, two = tiny(), tiny()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    with torch.no_grad():
        initialise(two, seed=1)
    assert not torch.equal(one.blocks[0].attn.q.weight, two.blocks[0].attn.q.weight)
    assert not torch.equal(one.blocks[0].attn.q.weight, one.blocks[1].attn.q.weight)
    residual, plain = one.blocks[0].mlp.down.weight, one.blocks[0].mlp.up.weight
    assert 1.7 < float((plain.std() / residual.std()).detach()) < 2.3


def test_the_gpus_norm_is_the_portable_one() -> None:
    x, weight = torch.randn(3, 5, 8), torch.randn(8)
    found = []
    for kernels in (PORTABLE, CUDA_SAVED_TENSORS):
        a, w = x.clone().requires_grad_(), weight.clone().requires_grad_()
        out = kernels.rms_norm(a, w, 1e-5)
        out.square().sum().backward()
        found.append((out.detach(), a.grad, w.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_unknown_parts_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="yarn without factor"):
        tiny(rope_scaling='{"rope_type": "yarn"}')
    scaled = shape("32 2 4 2 8 48", 64, rope_scaling='{"rope_type": "dynamic", "factor": 2}')
    with pytest.raises(Unsupported, match="'dynamic' is not one of"):
        frequencies(scaled)


def test_linear_scaling_stretches_positions() -> None:
    plain = shape("32 2 4 2 8 48", 64)
    scaled = shape("32 2 4 2 8 48", 64, rope_scaling='{"rope_type": "linear", "factor": 4.0}')
    torch.testing.assert_close(tables(scaled, 9)[0][8], tables(plain, 9)[0][2])

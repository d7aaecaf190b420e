"""Every model of the catalogue has the advisor's parameter count, or is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.hyperparameters import hyperparameters
from advisor.model_catalog import load_models
from advisor.plan import Plan
from trainer.config import config_of
from trainer.errors import ConfigError
from trainer.simulate import count_parameters

DOCS = Path(__file__).parents[2] / "docs/trainer.md"
PLAN = Plan(
    instance_type="p5.48xlarge",
    num_instances=1,
    gpus_per_instance=8,
    precision="bf16",
    activation_checkpointing="full",
    checkpoint_every=0,
    micro_batch=1,
    seq_len=1024,
    accumulation_steps=1,
    gradient_sync="each",
    shard_degree=8,
    replica_degree=1,
    reshard_after_forward=True,
    loss_chunks=1,
    optimizer="adamw",
    compile=False,
)
ALIBI = ("positions",)
WINDOWS = ("num_windowed_layers",)
# What of each refused model the trainer does not have, by the setting that says so.
REFUSED: dict[str, tuple[str, ...]] = {
    "apertus-8b": ("activation_parameters", "activation"),
    "baichuan2-13b": ALIBI,
    "bloom-1b1": ("embedding_norm", *ALIBI),
    "bloom-1b7": ("embedding_norm", *ALIBI),
    "bloom-3b": ("embedding_norm", *ALIBI),
    "bloom-560m": ("embedding_norm", *ALIBI),
    "bloom-7b1": ("embedding_norm", *ALIBI),
    "exaone-4.0-32b": (*WINDOWS, "num_unrotated_layers"),
    "falcon-rw-1b": ALIBI,
    "gemma-2-27b": WINDOWS,
    "gemma-2-2b": WINDOWS,
    "gemma-2-9b": WINDOWS,
    "gemma-3-12b": WINDOWS,
    "gemma-3-1b": WINDOWS,
    "gemma-3-270m": WINDOWS,
    "gemma-3-27b": WINDOWS,
    "gemma-3-4b": WINDOWS,
    "gpt-neo-1.3b": WINDOWS,
    "gpt-neo-125m": WINDOWS,
    "gpt-neo-2.7b": WINDOWS,
    "mpt-30b": ALIBI,
    "mpt-7b": ALIBI,
    "olmo-3-32b": WINDOWS,
    "olmo-3-7b": WINDOWS,
    "opt-350m": ("final_norm", "embedding_size"),
    "smollm3-3b": ("num_unrotated_layers",),
    "stablelm-2-12b": ("qk_norm_kind",),
}
ACCEPTED = sorted(set(load_models()) - set(REFUSED))


def test_most_of_the_catalogue_is_accepted() -> None:
    assert set(REFUSED) <= set(load_models())
    assert len(ACCEPTED) > 5 * len(REFUSED)


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_count_is_the_advisors(name: str) -> None:
    model = load_models()[name]
    config = config_of(hyperparameters(model.shape, PLAN, num_tokens=1000))
    # Blocks are equal, so two depths tell any other; building every block takes minutes.
    one, two = (
        count_parameters(replace(config, model=replace(config.model, num_layers=depth)))
        for depth in (1, 2)
    )
    assert one + (model.shape.num_layers - 1) * (two - one) == model.num_parameters_exact
    assert model.num_parameters_exact == model.shape.num_parameters


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt2-xl", "qwen3-32b"])
def test_the_count_at_full_depth_is_the_advisors(name: str) -> None:
    shape = load_models()[name].shape
    config = config_of(hyperparameters(shape, PLAN, num_tokens=1000))
    assert count_parameters(config) == shape.num_parameters


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_trainer_lacks_is_named_and_documented(name: str) -> None:
    strings = hyperparameters(load_models()[name].shape, PLAN, num_tokens=1000)
    with pytest.raises(ConfigError) as caught:
        config_of(strings)
    assert len(caught.value.problems) == len(REFUSED[name])
    text = DOCS.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if f"`{name}`" in line)
    for setting in REFUSED[name]:
        assert any(setting in problem for problem in caught.value.problems), setting
        assert f"`{setting}`" in row, setting

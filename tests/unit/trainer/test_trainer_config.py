"""Flat string settings: what is understood, what is refused, and how it is said."""

from dataclasses import fields, replace

import pytest

from trainer.config import config_of, help_text, parse
from trainer.errors import ConfigError
from trainer.settings import ModelSettings, PlanSettings, RunSettings

GROUPS = (ModelSettings, PlanSettings, RunSettings)


def problems_of(*arguments: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(arguments)
    return caught.value.problems


def test_without_settings_everything_is_default() -> None:
    assert parse([]) == config_of({})
    assert parse([]).model == ModelSettings()


def test_pairs_and_equals_signs_say_the_same() -> None:
    assert parse(["--probe", "5", "--seed=3"]) == parse(["--probe=5", "--seed", "3"])


def test_every_unknown_setting_is_listed() -> None:
    problems = problems_of("--hidden", "64", "--learning-rate", "1")
    assert problems == ("unknown setting 'hidden'", "unknown setting 'learning-rate'")


def test_a_group_is_given_whole_or_not_at_all() -> None:
    problems = problems_of("--hidden_size", "64", "--micro_batch", "1")
    wanted = {
        f"missing setting {item.name!r}"
        for group in (ModelSettings, PlanSettings)
        for item in fields(group)
        if not item.metadata["optional"] and item.name not in ("hidden_size", "micro_batch")
    }
    assert set(problems) == wanted
    assert "missing setting 'num_layers'" in wanted
    assert "missing setting 'shard_degree'" in wanted


def test_wrong_values_are_named_with_the_setting() -> None:
    problems = problems_of("--probe", "many", "--document_mask", "yes", "--schedule", "linear")
    assert {line.split(":")[0] for line in problems} == {"probe", "document_mask", "schedule"}


def test_a_key_without_value_a_stray_word_and_a_repetition_are_refused() -> None:
    assert problems_of("--probe") == ("--probe has no value",)
    assert problems_of("probe") == ("'probe' is not a --key",)
    assert problems_of("--probe", "1", "--probe", "2") == ("--probe is given twice",)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"num_tokens": "10", "num_steps": "10"}, "not both"),
        ({"probe": "2", "data": "/somewhere"}, "synthetic"),
        ({"document_mask": "true"}, "end_of_text"),
        ({"learning_rate": "0"}, "above 0"),
        ({"grad_clip": "-1"}, "below 0"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        config_of(changes)


def model_strings(**changes: str) -> dict[str, str]:
    strings = config_of({}).as_strings()
    names = [item.name for item in fields(ModelSettings)]
    return {**{name: strings[name] for name in names}, **changes}


def plan_strings(**changes: str) -> dict[str, str]:
    strings = config_of({}).as_strings()
    names = [item.name for item in fields(PlanSettings)]
    return {**{name: strings[name] for name in names}, **changes}


@pytest.mark.parametrize(
    ("strings", "word"),
    [
        (model_strings(num_heads="4", num_kv_heads="3"), "multiple"),
        (model_strings(positions="learned", max_position="16"), "max_position"),
        (model_strings(rope_scaling="{"), "JSON"),
        (model_strings(num_layers="2.5"), "whole number"),
        (plan_strings(checkpoint_every="2"), "selective"),
        ({**plan_strings(optimizer="adamw_bf16"), "beta2": "0.999"}, "bf16 average"),
    ],
)
def test_wrong_models_and_plans_are_refused(strings: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        config_of(strings)


def test_help_shows_every_setting_with_its_default() -> None:
    text = help_text()
    strings = config_of({}).as_strings()
    for group in GROUPS:
        for item in fields(group):
            assert f"--{item.name} (default {strings[item.name]!r})" in text
            assert item.metadata["help"] in text


def test_strings_survive_the_round_trip() -> None:
    config = parse(["--seed", "7", "--learning_rate", "1e-3", "--end_of_text", "0"])
    assert config_of(config.as_strings()) == config
    other = replace(config, model=replace(config.model, sliding_window=64, logit_softcap=30.0))
    assert config_of(other.as_strings()) == other


def test_names_are_unique_over_the_groups() -> None:
    names = [item.name for group in GROUPS for item in fields(group)]
    assert len(names) == len(set(names))

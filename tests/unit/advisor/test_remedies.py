"""Remedies: each changes one thing, and says so."""

from dataclasses import replace

from advisor.model_size import shape_from_size
from advisor.remedies import GPUS, MIN_SEQ_LEN, remedies
from advisor.workload import Constraints, Pins, Workload

WORKLOAD = Workload(
    shape=shape_from_size(3).shape,
    seq_len=4096,
    num_tokens=10**9,
    global_batch_tokens=2**20,
    training="pretrain",
)
WANTED = Constraints(objective="cheapest")


def test_an_open_question_has_only_leaner_ones() -> None:
    words = [text for text, _, _ in remedies(WORKLOAD, WANTED)]
    assert words[0] == "pin optimizer to adamw_8bit"
    assert words[1:-1] == [f"shorten seq_len to {n:,}" for n in (2048, 1024, MIN_SEQ_LEN)]


def test_each_pin_is_given_up_by_itself_and_then_all_together() -> None:
    pinned = replace(WANTED, pins=Pins(micro_batch=8, sharding="none", optimizer="adamw_bf16"))
    found = list(remedies(WORKLOAD, pinned))
    assert found[0][0] == "leave micro_batch open or pin less instead of 8"
    assert found[0][2].pins == replace(pinned.pins, micro_batch=None)
    assert found[1][2].pins == replace(pinned.pins, sharding=None)
    assert found[2][0] == "leave micro_batch, sharding open"
    assert found[2][2].pins == Pins(optimizer="adamw_bf16")


def test_fewer_instances_than_there_could_be_are_a_remedy() -> None:
    tight = replace(WANTED, instances=("p5.48xlarge",), max_instances=2)
    words = [text for text, _, _ in remedies(WORKLOAD, tight)]
    assert words[:2] == ["allow other instance types", "raise max_instances above 2"]


def test_a_batch_below_one_step_is_raised_to_one() -> None:
    small = replace(WORKLOAD, global_batch_tokens=100)
    text, larger, _ = next(remedies(small, WANTED))
    assert larger.global_batch_tokens == GPUS * 4096
    assert f"{GPUS * 4096:,}" in text

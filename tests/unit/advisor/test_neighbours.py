"""Neighbours: nearest first, and a difference that a person can read."""

from collections.abc import Callable
from dataclasses import replace

from advisor.case import Case, case_of
from advisor.neighbours import Neighbourhood, Traits, difference, traits_of
from advisor.result import Result

ResultWith = Callable[..., Result]


def case_for(result: Result) -> Case:
    case = case_of(result)
    assert isinstance(case, Case)
    return case


def traits(result: Result) -> Traits:
    case = case_for(result)
    return traits_of(case.shape, case.settings, case.stack, case.gpu)


def test_the_very_run_is_at_no_distance(result_with: ResultWith) -> None:
    near = Neighbourhood.of([case_for(result_with())])
    ((case, distance, words),) = near.nearest(traits(result_with()), 3)
    assert case.result.id == "mine-1"
    assert distance == 0.0
    assert words == "the same settings"


def test_nearer_comes_first(result_with: ResultWith) -> None:
    far = result_with(id="far-1", seq_len=512, gpu="A100-80GB", peak_mem_gib=20.0)
    close = result_with(id="close-1", seq_len=4096, peak_mem_gib=30.0)
    near = Neighbourhood.of([case_for(far), case_for(close)])
    found = near.nearest(traits(result_with()), 2)
    assert [case.result.id for case, _, _ in found] == ["close-1", "far-1"]
    assert found[0][1] < found[1][1]
    assert len(near.nearest(traits(result_with()), 1)) == 1


def test_differences_in_words(result_with: ResultWith) -> None:
    ours = traits(result_with())
    assert "4,096 tokens a sequence instead of 8,192" in difference(
        traits(result_with(seq_len=4096)), ours
    )
    words = difference(
        traits(
            result_with(
                gpu="B200-180GB",
                compute_dtype="mxfp8",
                activation_checkpointing="full",
                compile=False,
                gpus_total=16,
                nodes=2,
            )
        ),
        ours,
    )
    for text in (
        "16 GPUs instead of 8 GPUs",
        "B200 instead of H100-80GB",
        "mxfp8 instead of bf16",
        "full checkpointing instead of selective checkpointing",
        "eager instead of compiled",
    ):
        assert text in words


def test_a_run_listed_twice_counts_once(result_with: ResultWith) -> None:
    twice = [case_for(result_with()), case_for(result_with(id="mine-2"))]
    assert len(Neighbourhood.of(twice).cases) == 1


def test_an_empty_neighbourhood_has_none(result_with: ResultWith) -> None:
    assert Neighbourhood.of([]).nearest(traits(result_with()), 3) == []


def test_a_kind_that_is_not_stored_is_only_further_away(result_with: ResultWith) -> None:
    near = Neighbourhood.of([case_for(result_with())])
    known = traits(result_with())
    unseen = replace(known, kinds=("GPU of tomorrow", *known.kinds[1:]))
    ((_, distance, words),) = near.nearest(unseen, 1)
    assert distance > 0
    assert "instead of GPU of tomorrow" in words

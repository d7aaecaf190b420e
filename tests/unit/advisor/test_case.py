"""Cases: what a stored result says in the terms of the laws, or why it says too little."""

from collections.abc import Callable

import pytest

from advisor.case import Case, OutOfScope, case_of, stack_of
from advisor.plan import PRECISIONS
from advisor.result import Result, load_shipped_results

ResultWith = Callable[..., Result]


def case_for(result: Result) -> Case:
    case = case_of(result)
    assert isinstance(case, Case)
    return case


def test_a_complete_row_is_in_scope_for_both(result_with: ResultWith) -> None:
    case = case_for(result_with())
    assert case.why_not_memory is None
    assert case.why_not_throughput is None
    assert case.shape.num_parameters == 8_030_261_248
    assert case.settings.shard_degree == 8
    assert case.settings.op_fraction == 1.0
    assert case.settings.precision == PRECISIONS.index("bf16")
    assert case.gpu.name == "H100-80GB"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"gpu": "TPU-v5"}, "GPU TPU-v5 is not known"),
        ({"gpu": None}, "not stated"),
        ({"hidden": None}, "hidden size"),
        ({"vocab": None, "params_b": None}, "vocabulary"),
        ({"gpus_total": None}, "GPU count"),
        ({"micro_batch_per_gpu": None}, "micro batch"),
        ({"compute_dtype": "int4"}, "compute format int4"),
        ({"notes": "TP 4"}, "tensor"),
        ({"model_name": "llama3-8b+LoRA"}, "LoRA"),
        ({"notes": "SUSPECT figure"}, "doubtful"),
        ({"notes": "linear attention layers"}, "hybrid attention"),
    ],
)
def test_out_of_scope_says_why(
    result_with: ResultWith, columns: dict[str, object], words: str
) -> None:
    found = case_of(result_with(**columns))
    assert isinstance(found, OutOfScope)
    assert words in found.why_not


@pytest.mark.parametrize(
    ("columns", "memory", "speed"),
    [
        ({"peak_mem_gib": None}, "no peak memory", None),
        ({"tokens_per_s_per_gpu": None}, None, "no tokens per second"),
        ({"cpu_offload": True}, "offloaded", "offloaded"),
        ({"optimizer": "muon"}, "states are not known", "Muon"),
        ({"gpu": "B200-180GB (power limited)"}, None, "power limited"),
        ({"notes": "warm-up included"}, None, "warm-up"),
    ],
)
def test_one_figure_may_be_out_of_scope_alone(
    result_with: ResultWith, columns: dict[str, object], memory: str | None, speed: str | None
) -> None:
    case = case_for(result_with(**columns))
    for why_not, words in ((case.why_not_memory, memory), (case.why_not_throughput, speed)):
        assert (why_not is None) == (words is None)
        assert words is None or words in str(why_not)


def test_one_tensor_parallel_rank_is_none(result_with: ResultWith) -> None:
    assert isinstance(case_of(result_with(notes="TP 1 PP 1 CP 1")), Case)


def test_head_size_follows_from_the_printed_parameters(result_with: ResultWith) -> None:
    """Qwen3 1.7B: 16 heads of 128 on a hidden size of 2,048 would be 32 of 64 by division."""
    case = case_for(
        result_with(
            model_name="qwen3-0.6b",
            hidden=1024,
            layers=28,
            heads=16,
            kv_heads=8,
            ffn=3072,
            vocab=151936,
            tied_embeddings=True,
            params_b=0.596,
        )
    )
    assert case.shape.head_dim == 128


def test_vocabulary_follows_from_the_printed_parameters(result_with: ResultWith) -> None:
    case = case_for(result_with(vocab=None, params_b=8.030261248))
    assert case.shape.vocab_size == pytest.approx(128_256, abs=100)


@pytest.mark.parametrize(
    ("sharding", "degree"), [("full", 16), ("hybrid", 8), ("none", 1), ("shard_grad_op", 16)]
)
def test_sharding_on_two_machines(result_with: ResultWith, sharding: str, degree: int) -> None:
    settings = case_for(result_with(sharding=sharding, gpus_total=16, nodes=2)).settings
    assert settings.shard_degree == degree
    assert settings.replica_degree == 16 / degree
    assert settings.reshard == (sharding != "shard_grad_op")


def test_an_unknown_source_has_the_stack_of_its_framework(result_with: ResultWith) -> None:
    names = {kind: stack_of(result_with(framework=kind)).name for kind in ("fsdp1", "zero3", "ddp")}
    assert names == {"fsdp1": "fsdp1", "zero3": "zero", "ddp": "ddp"}
    assert stack_of(result_with(framework=None)).name == "fsdp2"


def test_stated_parameter_types_override_the_stack(result_with: ResultWith) -> None:
    pure = stack_of(result_with(param_dtype="bf16", optimizer="adamw"))
    assert (pure.weight_bytes, pure.master_bytes, pure.grad_bytes) == (2.0, 0.0, 2.0)


def test_every_shipped_result_is_a_case_or_says_why() -> None:
    found = [case_of(result) for result in load_shipped_results()]
    assert sum(isinstance(each, Case) for each in found) > 250
    assert all(each.why_not for each in found if isinstance(each, OutOfScope))

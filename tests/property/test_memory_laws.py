"""Laws of the memory model that must hold for every plan and shape."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.memory import estimate_memory
from advisor.model import ModelShape
from advisor.plan import CHECKPOINTINGS, OPTIMIZERS, PRECISIONS, Checkpointing, Plan
from advisor.settings import settings_of
from advisor.stack import load_stacks


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 4, 8]))
    head_dim = draw(st.sampled_from([64, 128]))
    return ModelShape(
        name="drawn",
        family="llama",
        hidden_size=heads * head_dim,
        num_layers=draw(st.integers(1, 96)),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_size=draw(st.integers(1, 64)) * 512,
        vocab_size=draw(st.integers(1000, 262144)),
        max_position=8192,
        tied_embeddings=draw(st.booleans()),
        gated_mlp=draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    mode = draw(st.sampled_from(CHECKPOINTINGS))
    return Plan(
        instance_type="p6-b200.48xlarge",
        num_instances=draw(st.sampled_from([1, 2, 4])),
        gpus_per_instance=8,
        precision=draw(st.sampled_from(PRECISIONS)),
        activation_checkpointing=mode,
        checkpoint_every=draw(st.sampled_from([0, 2, 4])) if mode == "selective" else 0,
        micro_batch=draw(st.integers(1, 64)),
        seq_len=draw(st.sampled_from([512, 2048, 8192, 32768])),
        accumulation_steps=draw(st.integers(1, 8)),
        gradient_sync=draw(st.sampled_from(["each", "last"])),
        shard_degree=8,
        reshard_after_forward=draw(st.booleans()),
        loss_chunks=draw(st.sampled_from([1, 8])),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        compile=draw(st.booleans()),
    )


def peak(shape: ModelShape, plan: Plan) -> float:
    memory = estimate_memory(shape, settings_of(plan), load_stacks()["shardwise"])
    return float(memory.reserved_bytes)


@given(shapes(), plans())
@settings(max_examples=150, deadline=None)
def test_more_shards_never_need_more(shape: ModelShape, plan: Plan) -> None:
    assert peak(shape, replace(plan, shard_degree=16)) <= peak(shape, plan)


@given(shapes(), plans())
@settings(max_examples=150, deadline=None)
def test_a_larger_batch_never_needs_less(shape: ModelShape, plan: Plan) -> None:
    assert peak(shape, replace(plan, micro_batch=plan.micro_batch + 1)) >= peak(shape, plan)


@given(shapes(), plans())
@settings(max_examples=150, deadline=None)
def test_checkpointing_more_keeps_less_at_the_loss(shape: ModelShape, plan: Plan) -> None:
    def saved(mode: Checkpointing) -> float:
        changed = replace(plan, activation_checkpointing=mode, checkpoint_every=0)
        memory = estimate_memory(shape, settings_of(changed), load_stacks()["shardwise"])
        return float(memory.terms["loss"]["activations"])

    assert saved("none") >= saved("selective") >= saved("full")


@given(shapes(), plans())
@settings(max_examples=150, deadline=None)
def test_the_peak_is_above_the_model_states(shape: ModelShape, plan: Plan) -> None:
    settings_ = settings_of(plan)
    memory = estimate_memory(shape, settings_, load_stacks()["shardwise"])
    states = (4 + settings_.state_bytes) * shape.num_parameters / plan.shard_degree
    assert float(memory.active_bytes) >= states
    assert float(memory.reserved_bytes) >= float(memory.active_bytes) - 1

"""One optimizer step of the trainer against the same architecture in `transformers` + FSDP2.

    python tests/benchmark/bench_trainer_step.py

One process on this machine's CPU (or its GPU), same shape, same batch, same precision, same
optimizer, eager. The two take turns, step by step, so that what else runs here slows both alike;
of each the fastest step counts, which is the least disturbed. Prints one JSON object, and fails
where the trainer is slower than LIMIT times the other.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from trainer.build import build_model
from trainer.config import Config, config_of
from trainer.initial import initialise
from trainer.optimizer import clip_gradients, make_optimizer
from trainer.parallel import make_mesh, parallelize
from trainer.settings import ModelSettings, PlanSettings
from trainer.world import joined

SHAPE = ModelSettings(
    hidden_size=512,
    num_layers=6,
    num_heads=8,
    num_kv_heads=4,
    head_dim=64,
    ffn_size=1408,
    vocab_size=16384,
    max_position=512,
    tied_embeddings=False,
)
PLAN = PlanSettings(precision="fp32", micro_batch=2, seq_len=256)
STEPS, SKIPPED = 12, 2
# Not slower, with room for what even the fastest of a few steps scatters.
LIMIT = 1.10


def ours(config: Config, device: torch.device) -> Callable[[torch.Tensor], None]:
    """A step of the trainer's program."""
    model = build_model(config)
    parallelize(model, config.plan, make_mesh(config.plan, 1, device.type))
    model.to_empty(device=device)
    model.make_tables(device)
    initialise(model, seed=0)
    optimizer = make_optimizer(model, config.plan.optimizer, config.run)
    tokens_per_step = config.tokens_per_micro_step

    def step(tokens_BT: torch.Tensor) -> None:
        (model(tokens_BT[:, :-1], tokens_BT[:, 1:]) / tokens_per_step).backward()
        clip_gradients(model, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def theirs(config: Config, device: torch.device) -> Callable[[torch.Tensor], None]:
    """A step of `transformers`' Llama with fully_shard on each layer."""
    shape = config.model
    described = transformers.LlamaConfig(
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.ffn_size,
        vocab_size=shape.vocab_size,
        max_position_embeddings=shape.max_position,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(described).to(device)
    mesh = make_mesh(config.plan, 1, device.type)
    policy = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step(tokens_BT: torch.Tensor) -> None:
        model(input_ids=tokens_BT[:, :-1], labels=tokens_BT[:, :-1]).loss.backward()
        clip_gradients(model, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def seconds_of(step: Callable[[torch.Tensor], None], tokens_BT: torch.Tensor) -> float:
    """Wall time of one step."""
    begun_s = time.perf_counter()
    step(tokens_BT)
    if tokens_BT.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun_s


def main() -> int:
    """Print the comparison; the exit status."""
    config = replace(config_of({}), model=SHAPE, plan=PLAN)
    with joined() as world:
        steps = {
            "trainer": ours(config, world.device),
            "transformers": theirs(config, world.device),
        }
        tokens_BT = torch.randint(SHAPE.vocab_size, (PLAN.micro_batch, PLAN.seq_len + 1))
        tokens_BT = tokens_BT.to(world.device)
        rounds = [
            {name: seconds_of(step, tokens_BT) for name, step in steps.items()}
            for _ in range(SKIPPED + STEPS)
        ][SKIPPED:]
        device = world.device.type
    best = {name: min(each[name] for each in rounds) for name in steps}
    found = {
        **{f"{name}_step_s": round(seconds, 3) for name, seconds in best.items()},
        **{
            f"{name}_median_s": round(statistics.median(each[name] for each in rounds), 3)
            for name in steps
        },
        "ratio": round(best["trainer"] / best["transformers"], 3),
        "limit": LIMIT,
        "device": device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(found["ratio"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

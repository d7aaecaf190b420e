"""One optimizer step of the trainer against the same architecture in `transformers` + FSDP2.

    python tests/benchmark/bench_trainer_step.py

One process on this machine's CPU (or its GPU), same shape, same batch, same precision, same
optimizer, eager. Prints one JSON object: the median step of both and their ratio.
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
STEPS, SKIPPED = 8, 2


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


def median_step_s(step: Callable[[torch.Tensor], None], device: torch.device) -> float:
    """Median wall time of a step, the first ones left out."""
    tokens_BT = torch.randint(SHAPE.vocab_size, (PLAN.micro_batch, PLAN.seq_len + 1)).to(device)
    seconds = []
    for _ in range(SKIPPED + STEPS):
        begun_s = time.perf_counter()
        step(tokens_BT)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun_s)
    return statistics.median(seconds[SKIPPED:])


def main() -> None:
    """Print the comparison."""
    config = replace(config_of({}), model=SHAPE, plan=PLAN)
    with joined() as world:
        found = {
            "trainer_step_s": median_step_s(ours(config, world.device), world.device),
            "transformers_step_s": median_step_s(theirs(config, world.device), world.device),
            "device": world.device.type,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
    found["ratio"] = found["trainer_step_s"] / found["transformers_step_s"]
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""One real GPU standing in for one rank of many: its true memory and its true compute time.

    python -m trainer.measure --world_size 8 [--key value]...

The program is the real one, on the GPU, with a process group that does nothing: collectives take
no time and move nothing, so the step time is that of compute alone, and gathered weights hold what
was in memory (the loss means nothing; GPUs draw less power on repetitive data, so clocks may be
higher than in a real run). Memory is not affected: every buffer is allocated as in the real run.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from shutil import which
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from trainer.build import build_model
from trainer.config import Config, parse
from trainer.data import Dealer, SyntheticSamples
from trainer.errors import ConfigError, TrainerError
from trainer.machine import check_machine, this_machine
from trainer.metrics import (
    flops_per_token,
    gpu_name,
    memory_of,
    remarks_on_software,
    today,
    versions,
)
from trainer.model import Model, num_parameters
from trainer.optimizer import clip_gradients, make_optimizer
from trainer.parallel import local, make_mesh, parallelize, synchronise_gradients
from trainer.profile import take_world_size
from trainer.simulate import count_parameters, fake_world
from trainer.stored_row import Measured, stored_row
from trainer.world import use_growing_segments


def measure(config: Config, world_size: int, device: torch.device, *, steps: int) -> dict[str, Any]:
    """Peaks and step times of one rank, after run.skip_steps steps that are left out.

    The row says oom = True, and has no figures, where the GPU's memory is not enough.
    """
    check_machine(config.plan, this_machine(device))
    row: dict[str, Any] = {
        "kind": "measured-one-rank",
        "world_size": world_size,
        "collectives": "none (a process group that does nothing)",
        "gpu": gpu_name(device),
        "driver": driver_version(),
        "versions": versions(),
        "settings": config.as_strings(),
        "oom": False,
    }
    with fake_world(world_size):
        try:
            row |= _measured(config, world_size, device, steps)
        except torch.OutOfMemoryError:
            row["oom"] = True
    return {**row, "row": _stored(config, row)}


def _stored(config: Config, row: Mapping[str, Any]) -> dict[str, str]:
    """No tokens per second: they are those of a real run only where collectives cost nothing."""
    speed = row.get("compute_tokens_per_s_per_gpu")
    remarks = ["one GPU stood in for one rank: collectives did nothing"]
    if speed is not None:
        flops = flops_per_token(config, row["num_parameters"]) * speed / 1e12
        remarks.append(f"compute alone {speed:.1f} tokens/s/GPU ({flops:.2f} TFLOP/s)")
    if row["driver"]:
        remarks.append(f"driver {row['driver']}")
    found = Measured(
        kind=row["kind"],
        world_size=row["world_size"],
        num_parameters=count_parameters(config),
        gpu=row["gpu"] or "CPU",
        peak_bytes=row.get("peak_reserved_bytes"),
        oom=row["oom"],
        on_date=today(),
        remarks=(*remarks, *remarks_on_software()),
    )
    return stored_row(config, found)


def _measured(config: Config, world_size: int, device: torch.device, steps: int) -> dict[str, Any]:
    model = build_model(config)
    count = num_parameters(model)
    root = parallelize(model, config.plan, make_mesh(config.plan, world_size, device.type))
    model.to_empty(device=device)
    model.make_tables(device)
    with torch.no_grad():
        for parameter in model.parameters():
            local(parameter).normal_(std=0.02)
    optimizer = make_optimizer(model, config.plan.optimizer, config.run)
    dealer = Dealer(
        samples=SyntheticSamples(
            seq_len=config.plan.seq_len, vocab_size=config.model.vocab_size, seed=config.run.seed
        ),
        micro_batch=config.plan.micro_batch,
        accumulation_steps=config.plan.accumulation_steps,
        world_size=world_size,
        rank=0,
    )
    seconds = []
    for number in range(config.run.skip_steps + steps):
        begun_s = time.perf_counter()
        _step(config, model, root, optimizer, dealer, device, number)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begun_s)
    steady = seconds[config.run.skip_steps :]
    tokens = config.tokens_per_micro_step * config.plan.accumulation_steps
    return {
        "num_parameters": count,
        **memory_of(device),
        "num_warmup_steps_excluded": config.run.skip_steps,
        "num_steps_measured": len(steady),
        "step_s_median": statistics.median(steady),
        "step_s_spread": statistics.pstdev(steady),
        "compute_tokens_per_s_per_gpu": tokens / statistics.median(steady),
    }


def _step(
    config: Config,
    model: Model,
    root: FSDPModule,
    optimizer: Optimizer,
    dealer: Dealer,
    device: torch.device,
    number: int,
) -> None:
    batches = dealer.batches(number * dealer.samples_per_step)
    for micro, batch in enumerate(batches):
        synchronise_gradients(root, config.plan, last=micro == len(batches) - 1)
        model(batch.tokens.to(device), batch.targets.to(device)).backward()
    clip_gradients(model, config.run.grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def driver_version() -> str | None:
    """The NVIDIA driver's; None where there is none."""
    program = which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return answer.stdout.splitlines()[0].strip() if answer.returncode == 0 else None


def main(arguments: Sequence[str]) -> int:
    """Command line; the exit status. Prints one JSON object."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        world_size, rest = take_world_size(arguments)
        config = parse(rest)
        if device.type == "cuda":
            use_growing_segments()
        row = measure(config, world_size, device, steps=config.run.probe or 5)
    except ConfigError as error:
        sys.stderr.write("\n".join(error.problems) + "\n")
        return error.exit_status
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    sys.stdout.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

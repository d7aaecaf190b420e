"""The training loop."""

import math
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from trainer.build import build_model
from trainer.checkpoint import Checkpoints, Progress
from trainer.config import Config
from trainer.data import Batch, Dealer, Samples, ShardSamples, SyntheticSamples
from trainer.errors import ConfigError, DataError, NonFiniteLoss
from trainer.initial import initialise
from trainer.metrics import Reporter, Step
from trainer.model import Model, num_parameters
from trainer.optimizer import clip_gradients, learning_rate, make_optimizer, set_learning_rate
from trainer.parallel import degrees, make_mesh, parallelize, synchronise_gradients
from trainer.stop import StopRequest, Watchdog
from trainer.text import text_shards, token_shards, tokenise
from trainer.weights import check_export, export_weights, load_weights
from trainer.world import World


@dataclass(slots=True, kw_only=True)
class Run:
    """What the loop works with; `progress` is what changes."""

    config: Config
    world: World
    model: Model
    root: FSDPModule
    optimizer: Optimizer
    dealer: Dealer
    reporter: Reporter
    checkpoints: Checkpoints | None
    num_steps: int
    progress: Progress
    saved_at_s: float = 0.0

    @property
    def tokens_per_step(self) -> int:
        """Over all ranks."""
        return self.dealer.samples_per_step * self.config.plan.seq_len


def train(config: Config, world: World) -> dict[str, Any]:
    """Train as the settings say; the contents of result.json. Raises TrainerError."""
    if config.run.probe:
        config = replace(config, run=replace(config.run, data="synthetic"))
    degrees(config.plan, world.size)
    run = _prepare(config, world)
    stop = StopRequest(os.environ, time.time)
    stop.watch_signals()
    with run.reporter.naming_out_of_memory(world.device):
        outcome = _loop(run, stop)
    if run.checkpoints is not None:
        run.checkpoints.save(run.model, run.optimizer, run.progress)
        run.checkpoints.finish()
    if config.run.export_to:
        export_weights(run.model, config, Path(config.run.export_to), writes=world.is_first)
    result = run.reporter.result(world.device, outcome=outcome)
    run.reporter.write_result(result)
    return result


def _prepare(config: Config, world: World) -> Run:
    torch.manual_seed(config.run.seed)
    samples = _samples(config, world)
    mesh = make_mesh(config.plan, world.size, world.device.type)
    model = build_model(config)
    if config.run.export_to:
        check_export(model, config)
    count = num_parameters(model)
    root = parallelize(model, config.plan, mesh)
    model.to_empty(device=world.device)
    model.make_tables(world.device)
    initialise(model, config.run.seed)
    if config.run.init_from:
        load_weights(model, config, Path(config.run.init_from))
    optimizer = make_optimizer(model, config.plan.optimizer, config.run)
    dealer = Dealer(
        samples=samples,
        micro_batch=config.plan.micro_batch,
        accumulation_steps=config.plan.accumulation_steps,
        world_size=world.size,
        rank=world.rank,
        end_of_text=config.run.end_of_text if config.run.document_mask else None,
    )
    checkpoints, progress = _resumed(config, world, model, optimizer)
    num_steps = steps_of(config, dealer.samples_per_step * config.plan.seq_len)
    reporter = Reporter(
        config,
        writes=world.is_first,
        world_size=world.size,
        num_parameters=count,
        num_steps=num_steps,
        num_nodes=world.num_nodes,
    )
    return Run(
        config=config,
        world=world,
        model=model,
        root=root,
        optimizer=optimizer,
        dealer=dealer,
        reporter=reporter,
        checkpoints=checkpoints,
        num_steps=num_steps,
        progress=progress,
        saved_at_s=time.monotonic(),
    )


def _resumed(
    config: Config, world: World, model: Model, optimizer: Optimizer
) -> tuple[Checkpoints | None, Progress]:
    """The checkpoints of a run that has them, and where the newest one left off."""
    if not config.run.checkpoint_dir or config.run.probe:
        return None, Progress()
    checkpoints = Checkpoints(config, is_first=world.is_first)
    newest = checkpoints.find(config.run.resume)
    if newest is None:
        return checkpoints, Progress()
    return checkpoints, checkpoints.load(newest, model, optimizer)


def steps_of(config: Config, tokens_per_step: int) -> int:
    """Optimizer steps of the whole run. Raises ConfigError where nothing says how many."""
    run = config.run
    if run.probe:
        return run.probe + run.skip_steps
    if run.num_steps:
        return run.num_steps
    if run.num_tokens:
        return math.ceil(run.num_tokens / tokens_per_step)
    raise ConfigError(["give num_steps, num_tokens or probe"])


def _samples(config: Config, world: World) -> Samples:
    run, plan, vocab_size = config.run, config.plan, config.model.vocab_size
    if run.data == "synthetic":
        return SyntheticSamples(seq_len=plan.seq_len, vocab_size=vocab_size, seed=run.seed)
    folder, skip_bad = Path(run.data), run.bad_shards == "skip"
    if not folder.is_dir():
        raise DataError(f"data folder {run.data!r} does not exist")
    texts, shards = text_shards(folder), token_shards(folder)
    if texts:
        cache = Path(run.output_dir) / "tokens"
        if world.local_rank == 0:
            skipped = tokenise(
                texts,
                cache,
                tokenizer=Path(run.tokenizer),
                field=run.text_field,
                vocab_size=vocab_size,
                end_of_text=run.end_of_text,
                skip_bad=skip_bad,
            )
            _say(world, *(f"skipped shard: {text}" for text in skipped))
        dist.barrier()
        shards = [*shards, *token_shards(cache)]
    if not shards:
        raise DataError(f"data folder {run.data!r} has no .bin, .jsonl or .parquet shard")
    samples = ShardSamples(
        shards, seq_len=plan.seq_len, vocab_size=vocab_size, seed=run.seed, skip_bad=skip_bad
    )
    _say(world, *(f"skipped shard: {text}" for text in samples.skipped))
    return samples


def _loop(run: Run, stop: StopRequest) -> str:
    """Steps until the end or a reason to stop; the outcome, in words."""
    reason = None
    with Watchdog(run.config.run.hang_after_s) as watchdog:
        while run.progress.num_steps < run.num_steps:
            begun_s = time.perf_counter()
            step = _step(run, begun_s)
            watchdog.step_came()
            line = run.reporter.report(step, run.world.device)
            if line:
                _say(run.world, line)
            reason = _after_step(run, stop)
            if reason:
                break
    return f"stopped: {reason}" if reason else "complete"


def _step(run: Run, begun_s: float) -> Step:
    config, number = run.config, run.progress.num_steps
    rate = learning_rate(number, run.num_steps, config.run)
    set_learning_rate(run.optimizer, rate)
    loss = _backward(run, run.dealer.batches(run.progress.num_samples))
    if not math.isfinite(loss):
        run.optimizer.zero_grad(set_to_none=True)
        _save(run)
        if run.checkpoints is not None:
            run.checkpoints.finish()
        raise NonFiniteLoss(f"the loss of step {number} is {loss}; the state before it was saved")
    norm = clip_gradients(run.model, config.run.grad_clip)
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)
    grad_norm = float(norm.item())
    run.progress = Progress(
        num_steps=number + 1,
        num_samples=run.progress.num_samples + run.dealer.samples_per_step,
        num_tokens=run.progress.num_tokens + run.tokens_per_step,
    )
    return Step(
        number=number,
        loss=loss,
        grad_norm=grad_norm,
        learning_rate=rate,
        seconds=time.perf_counter() - begun_s,
        tokens=run.tokens_per_step,
    )


def _backward(run: Run, batches: list[Batch]) -> float:
    """Gradients of the mean loss over all tokens of the step; that loss, equal on all ranks."""
    device = run.world.device
    # FSDP averages over the ranks; the loss is a sum over tokens.
    share = run.world.size / run.tokens_per_step
    total = torch.zeros((), device=device)
    for micro, batch in enumerate(batches):
        synchronise_gradients(run.root, run.config.plan, last=micro == len(batches) - 1)
        mask = batch.mask.to(device) if batch.mask is not None else None
        loss = run.model(batch.tokens.to(device), batch.targets.to(device), mask)
        (loss * share).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return float(total.item()) / run.tokens_per_step


def _after_step(run: Run, stop: StopRequest) -> str | None:
    """What all ranks agree to do: finish a save, begin one, stop (the reason is answered)."""
    votes = torch.tensor(
        [
            int(stop.reason is not None),
            int(_save_is_due(run)),
            int(run.checkpoints is None or not run.checkpoints.is_written),
        ]
    )
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    wants_stop, wants_save, not_written = (bool(vote) for vote in votes)
    if run.checkpoints is not None and not not_written:
        run.checkpoints.finish()
    if wants_save and not wants_stop:
        _save(run)
    if not wants_stop:
        return None
    return stop.reason or "another rank asked to"


def _save_is_due(run: Run) -> bool:
    settings = run.config.run
    if run.checkpoints is None:
        return False
    if settings.checkpoint_every_steps:
        return run.progress.num_steps % settings.checkpoint_every_steps == 0
    every_s = settings.checkpoint_every_s
    return every_s > 0 and run.world.is_first and time.monotonic() - run.saved_at_s >= every_s


def _save(run: Run) -> None:
    if run.checkpoints is not None:
        run.checkpoints.save(run.model, run.optimizer, run.progress)
        run.saved_at_s = time.monotonic()


def _say(world: World, *lines: str) -> None:
    if world.is_first:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

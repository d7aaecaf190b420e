"""Weights from Hugging Face safetensors, and back."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from trainer.config import Config
from trainer.errors import CheckpointError, Unsupported
from trainer.initial import clean_name, fill
from trainer.layers import blocks_differ
from trainer.model import Model
from trainer.naming import config_json, rules_of
from trainer.settings import ModelSettings

# Size of one file of an export.
SHARD_BYTES = 4 * 1024**3
INDEX = "model.safetensors.index.json"


def family_of(config: Config) -> str:
    """The naming: as set, or of init_from's config.json, or the nearest to the model's shape."""
    if config.run.family:
        return config.run.family
    described = Path(config.run.init_from) / "config.json"
    if config.run.init_from and described.is_file():
        found: dict[str, Any] = json.loads(described.read_text(encoding="utf-8"))
        return str(found.get("model_type", ""))
    return _nearest_family(config.model)


def _nearest_family(model: ModelSettings) -> str:
    if model.num_unrotated_layers and not model.num_windowed_layers:
        return "smollm3"
    if model.positions in ("alibi", "none") or blocks_differ(model):
        raise Unsupported("no family that is written has such positions or windows: no export_to")
    if model.positions == "learned":
        return "gpt2"
    if model.parallel_block == "separate":
        return "gpt_neox"
    if model.norm_layout == "post":
        return "olmo2"
    if model.qk_norm:
        return "qwen3"
    return "qwen2" if model.qkv_bias and not model.attn_out_bias else "llama"


def check_export(model: Model, config: Config) -> None:
    """Raise Unsupported, before the run, for weights that could not be written after it."""
    names = frozenset(clean_name(name) for name, _ in model.named_parameters())
    family = family_of(config)
    rules_of(family, config.model, names)
    _description(config, family)


@torch.no_grad()
def load_weights(model: Model, config: Config, folder: Path) -> None:
    """Fill the (sharded) parameters; every rank reads the files, one tensor at a time.

    Raises CheckpointError where files or tensors are missing or of another shape.
    """
    parameters = {clean_name(name): p for name, p in model.named_parameters()}
    files = _files(folder)
    for rule in rules_of(family_of(config), config.model, frozenset(parameters)):
        name = rule.theirs if rule.theirs in files else _without_prefix(rule.theirs)
        if name not in files:
            raise CheckpointError(f"{folder}: no tensor {rule.theirs}")
        with safe_open(files[name], framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(name)
        parts = _split(rule.split, tensor, config.model, name)
        for ours, part in zip(rule.ours, parts, strict=True):
            parameter = parameters[ours]
            if part.shape != parameter.shape:
                raise CheckpointError(
                    f"{name} is {tuple(tensor.shape)}, which does not give {ours} its "
                    f"{tuple(parameter.shape)}"
                )
            fill(parameter, part.to(parameter.device).contiguous())


def _split(split: Any, tensor: Tensor, model: ModelSettings, name: str) -> list[Tensor]:
    try:
        return list(split(tensor, model))
    except RuntimeError as error:
        raise CheckpointError(f"{name} is {tuple(tensor.shape)}: {error}") from error


def _without_prefix(name: str) -> str:
    """Some files (GPT-2's first release) leave out the name of the inner model."""
    return name.partition(".")[2]


def _files(folder: Path) -> dict[str, Path]:
    """Tensor name → file."""
    index = folder / INDEX
    if index.is_file():
        names: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return {name: folder / file for name, file in names.items()}
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no safetensors file")
    found: dict[str, Path] = {}
    for path in files:
        with safe_open(path, framework="pt") as opened:
            found |= dict.fromkeys(opened.keys(), path)
    return found


@torch.no_grad()
def export_weights(model: Model, config: Config, folder: Path, *, writes: bool) -> None:
    """Write safetensors and config.json that `transformers` loads; every rank takes part.

    The type is fp32 for an fp32 run and bf16 otherwise. Raises Unsupported (trainer.naming).
    """
    family = family_of(config)
    kind = torch.float32 if config.plan.precision == "fp32" else torch.bfloat16
    parameters = {clean_name(name): p for name, p in model.named_parameters()}
    rules = rules_of(family, config.model, frozenset(parameters))
    described = _description(config, family)
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
    shard: dict[str, Tensor] = {}
    where: dict[str, str] = {}
    number = size = 0
    for rule in rules:
        tensor = rule.join([_whole(parameters[name]) for name in rule.ours], config.model)
        if writes:
            if shard and size + tensor.numel() * kind.itemsize > SHARD_BYTES:
                where |= _write(folder, number, shard)
                shard, size, number = {}, 0, number + 1
            shard[rule.theirs] = tensor.to(device="cpu", dtype=kind).contiguous()
            size += tensor.numel() * kind.itemsize
    if writes:
        where |= _write(folder, number, shard)
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}, indent=2))
        text = json.dumps({**described, "dtype": str(kind).removeprefix("torch.")}, indent=2)
        (folder / "config.json").write_text(text, encoding="utf-8")
        _copy_tokenizer(config, folder)


def _description(config: Config, family: str) -> dict[str, Any]:
    source = Path(config.run.init_from) / "config.json"
    if config.run.init_from and source.is_file():
        found: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        return found
    described = config_json(family, config.model)
    if config.model.rope_scaling:
        described["rope_scaling"] = json.loads(config.model.rope_scaling)
    return described


def _whole(parameter: Tensor) -> Tensor:
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def _write(folder: Path, number: int, shard: dict[str, Tensor]) -> dict[str, str]:
    name = f"model-{number + 1:05d}.safetensors"
    save_file(shard, folder / name, metadata={"format": "pt"})
    return dict.fromkeys(shard, name)


def _copy_tokenizer(config: Config, folder: Path) -> None:
    source = Path(config.run.init_from) if config.run.init_from else None
    if source is None:
        return
    for path in source.glob("*token*"):
        if path.is_file():
            shutil.copy(path, folder / path.name)

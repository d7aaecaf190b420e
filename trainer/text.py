"""Text shards (.jsonl, .parquet) to token shards (.bin), once, before training begins."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from trainer.errors import DataError, Unsupported

TEXT_SUFFIXES = (".jsonl", ".parquet")


def token_shards(folder: Path) -> list[Path]:
    """The .bin shards of a folder and of its sub-folders, in order of name."""
    return sorted(path for path in folder.rglob("*.bin") if path.is_file())


def text_shards(folder: Path) -> list[Path]:
    """The text shards of a folder and of its sub-folders, in order of name."""
    return sorted(path for path in folder.rglob("*") if path.suffix in TEXT_SUFFIXES)


def tokenise(
    paths: list[Path],
    into: Path,
    *,
    tokenizer: Path,
    field: str,
    vocab_size: int,
    end_of_text: int | None,
    skip_bad: bool,
) -> list[str]:
    """One .bin per shard, written under a temporary name first; a shard that is there is kept.

    Returns what was skipped. Raises DataError (a bad shard or tokenizer), Unsupported (a package).
    """
    encoder = _encoder(tokenizer, vocab_size)
    kind = np.dtype("<u2") if vocab_size <= 65536 else np.dtype("<u4")
    into.mkdir(parents=True, exist_ok=True)
    skipped: list[str] = []
    for number, path in enumerate(paths):
        target = into / f"{number:06d}-{path.stem}.bin"
        if target.exists():
            continue
        partial = target.with_suffix(".partial")
        try:
            with partial.open("wb") as file:
                for text in _texts(path, field):
                    numbers = encoder.encode(text).ids
                    if end_of_text is not None:
                        numbers = [*numbers, end_of_text]
                    file.write(np.asarray(numbers, dtype=kind).tobytes())
        except DataError as error:
            partial.unlink()
            if not skip_bad:
                raise
            skipped.append(str(error))
            continue
        partial.rename(target)
    return skipped


def _encoder(path: Path, vocab_size: int) -> Any:
    if not path.is_file():
        raise DataError(f"text shards need a tokenizer file; {str(path)!r} is none")
    try:
        tokenizers = import_module("tokenizers")
    except ImportError as error:
        raise Unsupported(f"text shards need the package tokenizers: {error}") from error
    encoder = tokenizers.Tokenizer.from_file(str(path))
    size = encoder.get_vocab_size(with_added_tokens=True)
    if size > vocab_size:
        raise DataError(f"the tokenizer has {size} tokens, the model's vocab_size is {vocab_size}")
    return encoder


def _texts(path: Path, field: str) -> Iterator[str]:
    read = _jsonl if path.suffix == ".jsonl" else _parquet
    yield from read(path, field)


def _jsonl(path: Path, field: str) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield str(json.loads(line)[field])
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{path.name}, line {number}: no text in field {field!r} ({error!r})"
                ) from error


def _parquet(path: Path, field: str) -> Iterator[str]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise Unsupported(f"parquet shards need the package pyarrow: {error}") from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[field]):
                for value in batch.column(0):
                    yield str(value.as_py())
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"{path.name}: no text in field {field!r} ({error})") from error

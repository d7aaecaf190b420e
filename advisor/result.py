"""Result: one stored benchmark measurement, as a row of a CSV file with these very columns."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources

from advisor.errors import InvalidField

MAX_ROWS = 2_000_000
MAX_FIELD_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement. None means that the source does not say.

    params_b: billions of parameters as the source prints them, or from the dimensions.
    micro_batch_per_gpu: sequences per data-parallel rank (a mean where batches were uneven).
    peak_mem_gib: GiB; peak_mem_kind: reserved | allocated | active | unknown.
    tokens_per_s_per_gpu: steady state. mfu_pct, tflops_per_gpu: as printed by the source.
    oom: the run ended out of memory.
    """

    id: str
    source_url: str
    source_repo_path: str | None = None
    commit_or_date: str | None = None
    framework: str | None = None
    gpu: str | None = None
    gpus_total: int | None = None
    nodes: int | None = None
    model_name: str | None = None
    params_b: float | None = None
    hidden: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    mlp_type: str | None = None
    tied_embeddings: bool | None = None
    seq_len: int | None = None
    micro_batch_per_gpu: float | None = None
    grad_accum: int | None = None
    global_batch_seqs: float | None = None
    param_dtype: str | None = None
    compute_dtype: str | None = None
    optimizer: str | None = None
    activation_checkpointing: str | None = None
    sharding: str | None = None
    cpu_offload: bool | None = None
    compile: bool | None = None
    flash_attention: bool | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu_pct: float | None = None
    tflops_per_gpu: float | None = None
    peak_mem_gib: float | None = None
    peak_mem_kind: str | None = None
    oom: bool = False
    notes: str | None = None

    @property
    def source(self) -> str:
        """The group that a result came from: its id without the running number."""
        head, _, tail = self.id.rpartition("-")
        return head if head and tail.isdigit() else self.id


RESULT_COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Result))
_REQUIRED = ("id", "source_url")
_CHOICES: dict[str, tuple[str, ...]] = {
    "activation_checkpointing": ("none", "selective", "full", "unknown"),
    "sharding": ("full", "shard_grad_op", "hybrid", "none"),
    "peak_mem_kind": ("reserved", "allocated", "active", "unknown"),
}


def _integer(text: str) -> int:
    number = float(text)
    if number != int(number) or not 0 < number < 1e12:
        raise ValueError("must be a whole number above 0")
    return int(number)


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or not 0 < number < 1e15:
        raise ValueError("must be a finite number above 0")
    return number


def _flag(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("must be true or false")


_INTEGERS = (
    "gpus_total",
    "nodes",
    "hidden",
    "layers",
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "seq_len",
    "grad_accum",
)
_REALS = (
    "params_b",
    "micro_batch_per_gpu",
    "global_batch_seqs",
    "tokens_per_s_per_gpu",
    "mfu_pct",
    "tflops_per_gpu",
    "peak_mem_gib",
)
_FLAGS = ("tied_embeddings", "cpu_offload", "compile", "flash_attention", "oom")
_PARSERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(_REALS, _real),
    **dict.fromkeys(_FLAGS, _flag),
}


def parse_result(row: Mapping[str, str | None], where: str) -> Result:
    """A Result from text cells. Raises InvalidField naming `where` and the column."""
    values: dict[str, object] = {}
    for column, cell in row.items():
        text = (cell or "").strip()
        if column not in RESULT_COLUMNS:
            raise InvalidField(f"{where}.{column}", f"unknown column; use {RESULT_COLUMNS}")
        if not text:
            continue
        if len(text) > MAX_FIELD_CHARS:
            raise InvalidField(f"{where}.{column}", f"is longer than {MAX_FIELD_CHARS} characters")
        values[column] = _parse_cell(f"{where}.{column}", column, text)
    for column in _REQUIRED:
        if column not in values:
            raise InvalidField(f"{where}.{column}", "is required")
    return Result(**values)  # type: ignore[arg-type]  # each value was parsed by its column


def _parse_cell(field: str, column: str, text: str) -> object:
    choices = _CHOICES.get(column)
    if choices and text not in choices:
        raise InvalidField(field, f"must be one of {', '.join(choices)}, got {text[:80]!r}")
    parser = _PARSERS.get(column)
    if parser is None:
        return text
    try:
        return parser(text)
    except (ValueError, OverflowError) as error:
        raise InvalidField(field, f"{error}, got {text[:80]!r}") from None


def read_results(lines: Iterable[str]) -> Iterator[Result]:
    """Results from CSV text with a header of (some of) these columns, in any order.

    Raises InvalidField with the row number and the column for anything unusable.
    """
    reader = csv.DictReader(lines, strict=True)
    seen: set[str] = set()
    try:
        header = reader.fieldnames
        if not header:
            raise InvalidField("header", f"is missing; use the columns {', '.join(RESULT_COLUMNS)}")
        missing = [name for name in _REQUIRED if name not in header]
        if missing:
            raise InvalidField("header", f"lacks the column {missing[0]}")
        for number, row in enumerate(reader, start=2):
            where = f"row {number}"
            if None in row or len(seen) >= MAX_ROWS:
                raise InvalidField(where, "has more cells than the header, or is one row too many")
            result = parse_result(row, where)
            if result.id in seen:
                raise InvalidField(f"{where}.id", f"{result.id!r} stands twice")
            seen.add(result.id)
            yield result
    except csv.Error as error:
        raise InvalidField(f"row {reader.line_num}", f"is not CSV: {error}") from None


def load_shipped_results() -> tuple[Result, ...]:
    """The public measurements that come with the package (data/benchmarks.csv)."""
    text = resources.files("advisor").joinpath("data/benchmarks.csv").read_text(encoding="utf-8")
    return tuple(read_results(text.splitlines(keepends=True)))


def result_as_dict(result: Result) -> dict[str, object]:
    """The columns of a result by name, for storing and for JSON."""
    return asdict(result)

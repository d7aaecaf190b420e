"""The shipped models: shapes with published or computed parameter counts, found by name."""

import csv
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from importlib import resources
from types import MappingProxyType, UnionType
from typing import Any, get_args

from advisor.errors import InvalidField, UnknownName
from advisor.model import ModelShape, checked_shape

MAX_NAME = 200
_MAX_MATCHES = 5
# Columns beside the dimensions: where the row is from, and what was published.
_PROVENANCE = ("hf_id", "model_type", "architecture")
_COUNT = ("num_parameters_exact", "count_source", "config_source", "notes")
# Dimensions that no source of the catalogue states: the trainer's, without influence on counts.
_NOT_COLUMNS = (
    *("rope_scaling", "norm_eps", "embedding_scale", "attention_scale"),
    *("residual_scale", "logit_scale"),
)
# Tunings of one and the same shape.
_TUNINGS = frozenset({"instruct", "chat", "it", "base", "pt", "hf", "sft"})
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)*")


class ModelCatalogError(Exception):
    """models.csv is wrong: a column is missing or unknown, or a value has the wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogModel:
    """One row of models.csv.

    hf_id: owner/name on the Hugging Face Hub. num_parameters_exact: as published where
    `is_published_count`, else as computed from the model's own program; count_source says which.
    config_source: where the dimensions were read; notes: how sure that is, and what differs.
    The shape's numeric extras (norm_eps, rope_scaling, scales) are at their defaults: only a
    config.json states them.
    """

    shape: ModelShape
    hf_id: str
    model_type: str
    architecture: str
    num_parameters_exact: int
    count_source: str
    config_source: str
    notes: str

    @property
    def name(self) -> str:
        return self.shape.name

    @property
    def is_published_count(self) -> bool:
        """A published count equals the computed one."""
        return self.count_source.startswith("published")


@cache
def load_models() -> Mapping[str, CatalogModel]:
    """All shipped models by name, in the file's order."""
    path = resources.files("advisor").joinpath("data", "models.csv")
    return parse_models(path.read_text(encoding="utf-8"))


def parse_models(text: str) -> Mapping[str, CatalogModel]:
    """Models from CSV text. Raises ModelCatalogError naming the row and the column."""
    reader = csv.DictReader(text.splitlines(), strict=True)
    wanted = _columns()
    given = reader.fieldnames or ()
    if sorted(given) != sorted(wanted):
        wrong = ", ".join(sorted(set(given) ^ set(wanted))) or "a column twice"
        raise ModelCatalogError(f"models.csv: missing or unknown columns: {wrong}")
    models: dict[str, CatalogModel] = {}
    for row in reader:
        model = _model(row)
        if model.name in models:
            raise ModelCatalogError(f"models.csv {model.name}: the name is there twice")
        models[model.name] = model
    return MappingProxyType(models)


def find_model(name: str, *, field: str = "model.name") -> CatalogModel:
    """The model of that name or Hugging Face id, whatever its case, dashes and tuning.

    "Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct" and "llama3.1-8b" are one model.
    Raises InvalidField for what is no name, UnknownName with close matches.
    """
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_NAME:
        raise InvalidField(field, f"must be a model's name of at most {MAX_NAME} characters")
    index = _index()
    for words in (_words(name), _untuned(_words(name))):
        if words and "-".join(words) in index:
            return index["-".join(words)]
    raise UnknownName(field, name, kind="model", matches=_matches(name, index))


def _columns() -> tuple[str, ...]:
    dimensions = [item.name for item in fields(ModelShape) if item.name not in _NOT_COLUMNS]
    return (*dimensions, *_PROVENANCE, *_COUNT)


def _model(row: Mapping[str, str | None]) -> CatalogModel:
    where = f"models.csv {row.get('name') or '?'}"
    cells = {key: value for key, value in row.items() if value is not None}
    if None in row or len(cells) != len(row):
        raise ModelCatalogError(f"{where}: the row has more or fewer cells than columns")
    values = {
        item.name: _value(where, item, cells[item.name])
        for item in fields(ModelShape)
        if item.name in cells and (cells[item.name] or item.default is MISSING)
    }
    try:
        shape = checked_shape(ModelShape(**values))
    except InvalidField as error:
        raise ModelCatalogError(f"{where}: {error}") from None
    for column in ("model_type", "count_source", "config_source"):
        if not cells[column]:
            raise ModelCatalogError(f"{where}: {column} is empty")
    return CatalogModel(
        shape=shape,
        num_parameters_exact=_whole(where, "num_parameters_exact", cells["num_parameters_exact"]),
        **{name: cells[name] for name in (*_PROVENANCE, *_COUNT[1:])},
    )


def _value(where: str, item: Field[Any], text: str) -> Any:
    kinds = get_args(item.type) if isinstance(item.type, UnionType) else (item.type,)
    kind = kinds[0]
    if kind is bool:
        if text not in ("true", "false"):
            raise ModelCatalogError(f"{where}: {item.name} is neither true nor false: {text!r}")
        return text == "true"
    if kind is int:
        return _whole(where, item.name, text)
    if kind is float:
        return _number(where, item.name, text)
    choices = get_args(kind)
    if not text or (choices and text not in choices):
        raise ModelCatalogError(f"{where}: {item.name} cannot be {text!r}")
    return text


def _whole(where: str, column: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ModelCatalogError(f"{where}: {column} is not a whole number: {text!r}")
    return int(text)


def _number(where: str, column: str, text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise ModelCatalogError(f"{where}: {column} is not a number: {text!r}")
    return float(text)


def _words(name: str) -> tuple[str, ...]:
    """Letters and numbers of a name apart, without its owner: "Llama3.1-8B" → llama 3.1 8 b."""
    return tuple(_WORD.findall(name.lower().rpartition("/")[2]))


def _untuned(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in _TUNINGS)


@cache
def _index() -> Mapping[str, CatalogModel]:
    """Models by every spelling. The first row of a spelling has it: whole names first."""
    index: dict[str, CatalogModel] = {}
    models = load_models().values()
    named = [(_words(text), model) for model in models for text in (model.name, model.hf_id)]
    plain = [(_untuned(words), model) for words, model in named]
    for words, model in (*named, *plain):
        index.setdefault("-".join(words), model)
    return MappingProxyType(index)


def _matches(name: str, index: Mapping[str, CatalogModel]) -> tuple[str, ...]:
    spelled = "-".join(_untuned(_words(name)))
    close = difflib.get_close_matches(spelled, index, n=2 * _MAX_MATCHES, cutoff=0.6)
    # A name cut short ("mistral") is close to all that it begins.
    begun = [key for key in index if spelled and key.startswith(spelled)]
    names = dict.fromkeys(index[key].name for key in (*close, *begun))
    return tuple(names)[:_MAX_MATCHES]

"""What AWS's own service model, which comes with botocore, says about a request or an answer.

botocore itself looks at types, required members and minima only, and sends the rest: a wrong
pattern, enum or length is then refused by AWS, after minutes or after money.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "structure": ("an object", (Mapping,)),
    "map": ("an object", (Mapping,)),
    "list": ("a list", (list, tuple)),
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "long": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "double": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "timestamp": ("a time", (datetime, int, float, str)),
}
# re has no \p{…} (a class of Unicode): such patterns are left to AWS.
_UNICODE_CLASS = r"\p{"
MAX_SHOWN = 60


def findings(
    operation: str, request: Mapping[str, Any], *, service: str = "sagemaker"
) -> tuple[str, ...]:
    """What AWS would refuse in a request, each with its place; empty when the model allows it.

    operation: as in the API, such as "CreateTrainingJob". Raises KeyError for an unknown one.
    """
    return tuple(_walk(_operation(service, operation).input_shape, request, ""))


def answer_findings(
    operation: str, answer: Mapping[str, Any], *, service: str = "sagemaker"
) -> tuple[str, ...]:
    """How an answer differs from what the model says of it."""
    shape = _operation(service, operation).output_shape
    if shape is None:
        return tuple(f"{key}: is not in the API" for key in answer)
    return tuple(_walk(shape, answer, ""))


def instance_types() -> frozenset[str]:
    """Every instance type of training jobs, as SageMaker writes them: "ml.p5.48xlarge"."""
    shape = _model("sagemaker").shape_for("TrainingInstanceType")
    return frozenset(shape.enum)


def _operation(service: str, name: str) -> Any:
    model = _model(service)
    if name not in model.operation_names:
        raise KeyError(f"{service} has no operation {name}")
    return model.operation_model(name)


@lru_cache(maxsize=16)
def _model(service: str) -> Any:
    """botocore's model of a service, read from its data files; no client and no key is needed."""
    from botocore.loaders import create_loader  # noqa: PLC0415 - loaded only where AWS is used
    from botocore.model import ServiceModel  # noqa: PLC0415

    return ServiceModel(create_loader().load_service_model(service, "service-2"), service)


def _walk(shape: Any, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if kind in _TYPES and not _is_of(kind, value):
        yield f"{path or 'the request'}: must be {_TYPES[kind][0]}, not {type(value).__name__}"
    elif kind == "structure":
        yield from _structure(shape, value, path)
    elif kind in ("list", "map"):
        yield from _size(shape, len(value), path, "entries")
        yield from _entries(shape, value, path)
    elif kind == "string":
        yield from _text(shape, value, path)
    elif kind in ("integer", "long", "float", "double"):
        yield from _number(shape, value, path)


def _is_of(kind: str, value: Any) -> bool:
    """Whether a value has the type of a shape. True is no number, though Python says so."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind][1])


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    prefix = f"{path}." if path else ""
    for key in shape.required_members:
        if value.get(key) is None:
            yield f"{prefix}{key}: is required"
    for key, each in value.items():
        if key not in shape.members:
            yield f"{prefix}{key}: is not in the API"
        elif each is not None:
            yield from _walk(shape.members[key], each, f"{prefix}{key}")


def _entries(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "list":
        for index, each in enumerate(value):
            yield from _walk(shape.member, each, f"{path}[{index}]")
        return
    for key, each in value.items():
        shown = str(key)[:MAX_SHOWN]
        yield from _walk(shape.key, key, f"{path} key {shown!r}")
        yield from _walk(shape.value, each, f"{path}.{shown}")


def _size(shape: Any, size: int, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield f"{path}: must have at least {low} {what}, has {size}"
    if high is not None and size > high:
        yield f"{path}: must have at most {high} {what}, has {size}"


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    enum: Sequence[str] = shape.enum
    if enum and value not in enum:
        yield f"{path}: {value[:MAX_SHOWN]!r} is none of the {len(enum)} values that the API knows"
    yield from _size(shape, len(value), path, "characters")
    pattern = shape.metadata.get("pattern")
    if pattern and _UNICODE_CLASS not in pattern and not re.fullmatch(pattern, value, re.DOTALL):
        yield f"{path}: {value[:MAX_SHOWN]!r} does not match {pattern}"


def _number(shape: Any, value: float, path: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and value < low:
        yield f"{path}: must be at least {low}, is {value}"
    if high is not None and value > high:
        yield f"{path}: must be at most {high}, is {value}"

"""Explanation: the formula of one number of an answer, with its values and what they mean."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAX_NAME_LETTERS = 12
FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max, "ceil": math.ceil}
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_NAME = re.compile(r"\b[A-Za-z]+\b")
# As people write them. The power comes first: its sign is twice that of the product.
_SIGNS = ((" ** ", "^"), (" * ", " × "), (" / ", " ÷ "), ("-", "−"))
# Floats above are rates, which read better with an exponent; counts are integers.
_MOST_WRITTEN_OUT = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A value in a formula; an int where it is counted.

    name: 1 to 12 letters, as in docs/model.md and docs/throughput.md.
    meaning: in words, with its source or how it comes about.
    """

    name: str
    value: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a number comes about.

    formula: a Python expression over the symbols' names and numbers, with + - * / ** min max ceil.
    symbols: each name of the formula once, in its order there.
    unit: bytes, s, tokens/s, USD, h, or 1 for a count, a share or a probability.
    value: of the formula; the answer may have rounded it to whole bytes or cents.
    source: the reference of the formula and of its figures.
    """

    formula: str
    symbols: tuple[Symbol, ...]
    unit: str
    value: float
    source: str


def explained(formula: str, known: Mapping[str, Symbol], *, unit: str, source: str) -> Explanation:
    """The explanation by a formula, with those of the known symbols that it names.

    Raises KeyError for a name that is not known, ValueError for what is no such formula.
    """
    names = dict.fromkeys(name for name in _NAME.findall(formula) if name not in FUNCTIONS)
    symbols = tuple(known[name] for name in names)
    return Explanation(
        formula=formula,
        symbols=symbols,
        unit=unit,
        value=evaluated(formula, symbols),
        source=source,
    )


def table_of(*symbols: Symbol) -> dict[str, Symbol]:
    """Symbols by their names."""
    return {symbol.name: symbol for symbol in symbols}


def symbols_of(table: Mapping[str, tuple[float, str]]) -> dict[str, Symbol]:
    """Symbols by their names, from (value, meaning)."""
    return {
        name: Symbol(name=name, value=value, meaning=meaning)
        for name, (value, meaning) in table.items()
    }


def evaluated(formula: str, symbols: tuple[Symbol, ...]) -> float:
    """The value of a formula. Raises ValueError for anything but the expressions named above."""
    values = {symbol.name: symbol.value for symbol in symbols}
    return _value(ast.parse(formula, mode="eval").body, values)


def as_factor(formula: str) -> str:
    """The formula as it may stand beside × or ÷: in brackets where it is a sum."""
    outermost = ast.parse(formula, mode="eval").body
    is_sum = isinstance(outermost, ast.BinOp) and isinstance(outermost.op, ast.Add | ast.Sub)
    return f"({formula})" if is_sum else formula


def smaller_of(first: str, second: str) -> str:
    """The formula of the smaller of two."""
    return f"min({first}, {second})"


def larger_of(first: str, second: str) -> str:
    """The formula of the larger of two."""
    return f"max({first}, {second})"


def cited(*sources: str) -> str:
    """Several sources as one text."""
    return "; ".join(sources)


def as_written(explanation: Explanation) -> str:
    """The formula in the signs of print: × ÷ − and ^ for a power."""
    return _with_signs(explanation.formula)


def with_values(explanation: Explanation) -> str:
    """The formula with each symbol's value in its place, in the same signs."""
    values = {symbol.name: symbol.value for symbol in explanation.symbols}

    def placed(match: re.Match[str]) -> str:
        name = match.group()
        if name not in values:
            return name
        text = value_in_words(values[name])
        return f"({text})" if values[name] < 0 else text

    return _with_signs(_NAME.sub(placed, explanation.formula))


def value_in_words(value: float) -> str:
    """A value for people, with thousands separators: counts and cents in full, others in 6 digits.

    Rates and other floats from 10 million on have an exponent: 1.451e15.
    """
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < _MOST_WRITTEN_OUT and (value.is_integer() or value == round(value, 2)):
        return f"{value:,}".removesuffix(".0")
    mantissa, mark, exponent = f"{value:,.6g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else mantissa


def _with_signs(text: str) -> str:
    for ours, printed in _SIGNS:
        text = text.replace(ours, printed)
    return text


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(part, values) for part in parts))
    raise ValueError(f"not a part of a formula: {ast.unparse(node)}")

"""Explanation: what a formula may be, and how it is shown."""

import pytest

from advisor.explanation import (
    Symbol,
    as_factor,
    as_written,
    cited,
    evaluated,
    explained,
    larger_of,
    smaller_of,
    symbols_of,
    value_in_words,
    with_values,
)

KNOWN = symbols_of(
    {
        "P": (8_030_261_248, "parameters of the model"),
        "F": (8, "GPUs that share one copy of the weights"),
        "R": (1.451e15, "sustained FLOP/s"),
        "e": (3.6e-6, "seconds that one product loses"),
        "x": (-1.5, "a distance below zero"),
    }
)


def test_an_explanation_has_the_symbols_of_its_formula_in_their_order() -> None:
    found = explained("4 * P / F + ceil(e) * P", KNOWN, unit="bytes", source="here")
    assert [symbol.name for symbol in found.symbols] == ["P", "F", "e"]
    assert found.value == 4 * 8_030_261_248 / 8 + 8_030_261_248
    assert (found.unit, found.source) == ("bytes", "here")


def test_a_name_without_a_value_is_refused() -> None:
    with pytest.raises(KeyError):
        explained("4 * Q", KNOWN, unit="bytes", source="here")


@pytest.mark.parametrize(
    "formula", ["P if F else 1", "[P]", "abs(P)", "P.real", "P % F", "'P'", "min(P, key=F)", "-P"]
)
def test_what_is_no_such_formula_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="not a part of a formula"):
        evaluated(formula, tuple(KNOWN.values()))


def test_formulas_are_written_in_the_signs_of_print() -> None:
    found = explained("max(0, P - F) * e ** 2 / R", KNOWN, unit="s", source="here")
    assert as_written(found) == "max(0, P − F) × e^2 ÷ R"
    assert with_values(found) == "max(0, 8,030,261,248 − 8) × 3.6e−6^2 ÷ 1.451e15"


def test_values_below_zero_stand_in_brackets() -> None:
    found = explained("4 + x ** 2", KNOWN, unit="1", source="here")
    assert with_values(found) == "4 + (−1.5)^2"


def test_a_name_is_not_found_inside_of_another() -> None:
    known = symbols_of({"min": (1, "no name"), "R": (2, "one"), "Rb": (3, "another")})
    found = explained("min(R, Rb) * R", known, unit="1", source="here")
    assert with_values(found) == "min(2, 3) × 2"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (8_030_261_248, "8,030,261,248"),
        (15_006_957_568_000, "15,006,957,568,000"),
        (8192.0, "8,192"),
        (4096.5, "4,096.5"),
        (19933.44, "19,933.44"),
        (430197.9886, "430,198"),
        (0.9015, "0.9015"),
        (1.10799803, "1.108"),
        (1.451e15, "1.451e15"),
        (450e9, "4.5e11"),
        (5e-6, "5e-6"),
        (0, "0"),
        (-12.25, "-12.25"),
    ],
)
def test_values_are_shown_for_people(value: float, shown: str) -> None:
    assert value_in_words(value) == shown


def test_sums_are_bracketed_beside_a_product() -> None:
    assert as_factor("a + b") == "(a + b)"
    assert as_factor("a - b * c") == "(a - b * c)"
    assert as_factor("a * (b + c)") == "a * (b + c)"
    assert as_factor(larger_of("a", "b - c")) == "max(a, b - c)"
    assert as_factor(smaller_of("a + b", "c")) == "min(a + b, c)"


def test_sources_stand_side_by_side() -> None:
    assert cited("one", "two") == "one; two"


def test_a_symbol_keeps_whether_it_is_counted() -> None:
    assert isinstance(Symbol(name="F", value=8, meaning="GPUs").value, int)

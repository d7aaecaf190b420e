"""Places in the plots: equality is a diagonal, colours go to the frequent, links are web links."""

from typing import Any

from app.accuracy_plots import MAX_COLOURS, SIZE, reliability_points, scatter


def row(measured: float | None, predicted: float | None, gpu: str = "H100") -> dict[str, Any]:
    return {
        "id": "r-1",
        "source_url": "https://example.org",
        "gpu": gpu,
        "peak_mem_gib": measured,
        "predicted_mem_gib": predicted,
    }


def test_equal_figures_lie_on_the_diagonal_and_larger_predictions_above() -> None:
    plot = scatter([row(10.0, 10.0), row(20.0, 40.0)], "memory", "gpu")
    assert plot is not None
    equal, above = plot.points
    assert abs(equal.x + equal.y - SIZE) < 0.2
    assert above.x + above.y < SIZE
    assert all(0 <= point.x <= SIZE and 0 <= point.y <= SIZE for point in plot.points)
    assert [text for _, _, text in plot.ticks] == ["10", "20"]


def test_rows_without_both_figures_are_left_out() -> None:
    assert scatter([row(None, 10.0), row(10.0, None)], "memory", "gpu") is None


def test_frequent_values_have_colours_of_their_own() -> None:
    rows = [row(10.0, 10.0, gpu=f"gpu{n}") for n in range(12)]
    plot = scatter([*rows, row(11.0, 12.0, gpu="gpu11")], "memory", "gpu")
    assert plot is not None
    assert plot.legend[0] == (0, "gpu11")
    assert plot.legend[-1] == (MAX_COLOURS, "others")
    assert {point.colour for point in plot.points} == set(range(MAX_COLOURS + 1))


def test_other_schemes_are_not_linked() -> None:
    plot = scatter([{**row(1.0, 1.0), "source_url": "javascript:alert(1)"}], "memory", "gpu")
    assert plot is not None
    assert not plot.points[0].link


def test_calibrated_chances_lie_on_the_diagonal() -> None:
    table = [
        {"count": 4, "mean_probability": 0.25, "oom_fraction": 0.25},
        {"count": 0, "mean_probability": None, "oom_fraction": None},
    ]
    (point,) = reliability_points(table)
    assert (point.x, point.y) == (100.0, 300.0)

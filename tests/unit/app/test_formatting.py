"""Figures for people."""

import pytest

from app import formatting


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (formatting.count(182_552_887_296), "182.6 B"),
        (formatting.count(950), "950"),
        (formatting.count(None), "–"),
        (formatting.gibibytes(71_660_009_169), "66.7 GiB"),
        (formatting.usd(19_933.44), "$19,933"),
        (formatting.usd(109.19), "$109.19"),
        (formatting.percent(0.0083), "0.83 %"),
        (formatting.percent(4e-6), "below 0.1 %"),
        (formatting.percent(0.0), "0 %"),
        (formatting.duration(480), "20.0 days"),
        (formatting.duration(24), "24.0 hours"),
        (formatting.duration(0.45), "27 minutes"),
        (formatting.seconds(39.118), "39.1 s"),
        (formatting.seconds(0.0067), "6.7 ms"),
        (formatting.setting(value=True), "yes"),
        (formatting.setting(8192), "8,192"),
        (formatting.setting("bf16"), "bf16"),
    ],
)
def test_figures(text: str, wanted: str) -> None:
    assert text == wanted

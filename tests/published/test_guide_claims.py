"""Each figure beside the AWS guide's claims is what models and stored results say now."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import guide_document as guide

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "").rstrip(".")) for found in NUMBER.findall(text)]


def test_the_document_has_the_figures_of_now() -> None:
    """Renew it with `python tests/published/guide_document.py`."""
    fresh, stored = guide.document(), guide.DOCUMENT.read_text(encoding="utf-8")
    assert NUMBER.sub("#", fresh) == NUMBER.sub("#", stored)
    assert numbers(fresh) == pytest.approx(numbers(stored), rel=0.005, abs=0.011)


@pytest.mark.parametrize(("at", "measured_gb"), list(guide.BARS_GB.items()), ids=str)
def test_the_bars_are_predicted(at: tuple[str, int], measured_gb: float) -> None:
    mode, micro_batch = at
    found = guide.guide_cell(micro_batch, mode)  # type: ignore[arg-type] # one of the modes
    assert found.active_bytes / 1e9 == pytest.approx(measured_gb, rel=0.05)


def test_checkpointing_alone_slows_and_the_batch_alone_does_not_bring_eight_times() -> None:
    one, full, both = (guide.guide_cell(*at) for at in ((1, "none"), (1, "full"), (16, "full")))
    assert full.tokens_per_s < one.tokens_per_s
    assert both.tokens_per_s < 2 * full.tokens_per_s


def test_a_start_up_that_explains_the_first_bar_explains_the_third() -> None:
    one, both = guide.guide_cell(1, "none"), guide.guide_cell(16, "full")
    steps = guide.GUIDE_ITERATIONS
    start_up_s = steps * (guide.SEQ_LEN / guide.BAR_A_TOKENS_PER_S - one.step_s)
    shown = 16 * guide.SEQ_LEN * steps / (start_up_s + steps * both.step_s)
    assert shown == pytest.approx(guide.BAR_C_TOKENS_PER_S, rel=0.1)


def test_without_checkpointing_14b_fits_and_32b_does_not() -> None:
    fits = {
        size: guide.cell(
            guide.shape_from_size(float(size)).shape, 1, "none", "bf16", guide.OWN_STACK
        ).fits
        for size in (14, 32)
    }
    assert fits == {14: True, 32: False}


def speed(result_id: str) -> float:
    return guide.results()[result_id].tokens_per_s_per_gpu or 0.0


@pytest.mark.parametrize(
    ("faster", "slower"),
    [
        ("torchao-009", "torchao-010"),
        ("mbridge-080", "mbridge-081"),
        ("mbridge-004", "mbridge-005"),
        ("mbridge-023", "mbridge-022"),
        ("mbridge-006", "mbridge-004"),
        ("titan-133", "titan-132"),
        ("bw-titan-003", "bw-titan-002"),
    ],
)
def test_stored_results_say_what_the_text_says_of_formats(faster: str, slower: str) -> None:
    assert speed(faster) > speed(slower)


def test_format_changes_stored_memory_by_a_few_percent() -> None:
    for first_id, second_id in guide.PRECISION_PAIRS:
        first, second = guide.results()[first_id], guide.results()[second_id]
        if first.peak_mem_gib and second.peak_mem_gib and second.compute_dtype != "nvfp4":
            assert second.peak_mem_gib == pytest.approx(first.peak_mem_gib, rel=0.05)

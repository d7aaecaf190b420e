"""Neighbours: the stored results nearest to a plan, and how they differ, in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.case import Case
from advisor.guards import is_impossible
from advisor.hardware import Gpu
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import FloatArray, Settings
from advisor.stack import Stack

# What a doubling of each size weighs, and being of another kind.
_DOUBLING = (1.0, 0.5, 0.4, 0.3)
_KIND = (1.5, 0.8, 0.8, 0.5, 0.5)
_SIZE_WORDS = (
    "{:.2f}B parameters",
    "{:,.0f} tokens a sequence",
    "{:,.0f} tokens a GPU",
    "{:,.0f} GPUs",
)
_UNSEEN = -1
# Sizes within this many doublings count as the same.
SAME = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a run is compared by: sizes, and kinds in words."""

    sizes: tuple[float, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Traits of stored results as arrays, shaped (results, sizes) and (results, kinds).

    Kinds are numbers, which compare faster than words: `words` has the number of each.
    """

    cases: tuple[Case, ...]
    traits: tuple[Traits, ...]
    log_sizes: FloatArray
    kinds: NDArray[np.int64]
    words: Mapping[str, int]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Neighbourhood":
        """The neighbourhood of these cases, less those that physics rules out.

        A run that is listed twice counts once.
        """
        kept: dict[tuple[object, ...], Case] = {}
        for case in (each for each in cases if not is_impossible(each)):
            result = case.result
            run = (result.source, result.model_name, result.tokens_per_s_per_gpu, result.oom)
            kept.setdefault((*run, result.peak_mem_gib, result.gpus_total), case)
        traits = tuple(
            traits_of(case.shape, case.settings, case.stack, case.gpu) for case in kept.values()
        )
        words = {word: n for n, word in enumerate(sorted({w for t in traits for w in t.kinds}))}
        kinds = [[words[word] for word in t.kinds] for t in traits]
        return cls(
            cases=tuple(kept.values()),
            traits=traits,
            log_sizes=np.log2(np.asarray([t.sizes for t in traits]).reshape(-1, len(_DOUBLING))),
            kinds=np.asarray(kinds, dtype=np.int64).reshape(-1, len(_KIND)),
            words=words,
        )

    def nearest(self, traits: Traits, count: int) -> list[tuple[Case, float, str]]:
        """(case, distance, difference in words) of the `count` nearest, nearest first."""
        if not self.cases:
            return []
        apart = np.abs(self.log_sizes - np.log2(traits.sizes))
        distance = np.where(apart < SAME, 0.0, apart) @ np.asarray(_DOUBLING)
        kinds = np.asarray([self.words.get(word, _UNSEEN) for word in traits.kinds])
        distance = distance + (self.kinds != kinds) @ np.asarray(_KIND)
        order = np.argsort(distance, kind="stable")[:count]
        return [
            (self.cases[i], float(distance[i]), difference(self.traits[i], traits)) for i in order
        ]


def traits_of(shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu) -> Traits:
    """The traits of one plan."""
    return Traits(
        sizes=(
            float(shape.num_parameters),
            float(settings.seq_len),
            float(settings.tokens),
            float(settings.num_gpus),
        ),
        kinds=(
            gpu.name,
            PRECISIONS[int(settings.precision)],
            _checkpointing(settings),
            "compiled" if settings.compiled else "eager",
            stack.name,
        ),
    )


def difference(theirs: Traits, ours: Traits) -> str:
    """How a stored run differs from a plan, in words."""
    words = []
    for text, left, right in zip(_SIZE_WORDS, theirs.sizes, ours.sizes, strict=True):
        if abs(math.log2(left / right)) >= SAME:
            unit = 1e9 if "B parameters" in text else 1.0
            words.append(f"{text.format(left / unit)} instead of {text.format(right / unit)}")
    for left_kind, right_kind in zip(theirs.kinds, ours.kinds, strict=True):
        if left_kind != right_kind:
            words.append(f"{left_kind} instead of {right_kind}")
    return "; ".join(words) or "the same settings"


def _checkpointing(settings: Settings) -> str:
    if settings.kept_fraction == 1:
        return "no checkpointing"
    if settings.op_fraction == 1:
        return "selective checkpointing"
    if settings.full_fraction == 1:
        return "full checkpointing"
    return f"every {round(1 / float(settings.full_fraction))}th block checkpointed"

"""Samples by number: sample i is the same tokens whoever asks, so a run can go on anywhere.

A sample is seq_len + 1 tokens; the targets are the tokens one further. A step takes the next
samples in order and deals them to the ranks, so the only state of the data is how many samples
were taken, and a run resumed on another number of GPUs goes on with the exact next sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.errors import DataError

Tokens: TypeAlias = NDArray[np.int64]


class Samples(Protocol):
    """Any number of samples of seq_len + 1 tokens."""

    def sample(self, number: int) -> Tokens:
        """Tokens (seq_len + 1,) of sample `number` ≥ 0; the same for the same number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSamples:
    """Arithmetic progressions of tokens: no data needed, and a loss that falls."""

    seq_len: int
    vocab_size: int
    seed: int

    def sample(self, number: int) -> Tokens:
        """As Samples."""
        random = np.random.default_rng((self.seed, number))
        start, stride = random.integers(self.vocab_size), random.integers(1, 4)
        return (start + stride * np.arange(self.seq_len + 1)) % self.vocab_size


class ShardSamples:
    """Windows of the tokens in .bin shards (uint16, or uint32 for more than 65536 tokens).

    Windows do not cross shards; a shard's last tokens that fill no window are not used. Each
    epoch has an order of its own.
    """

    def __init__(
        self, paths: Sequence[Path], *, seq_len: int, vocab_size: int, seed: int, skip_bad: bool
    ) -> None:
        """Raises DataError for a bad shard (unless skip_bad), and where no window is found."""
        self.seq_len, self.vocab_size, self.seed = seq_len, vocab_size, seed
        self.skipped: list[str] = []
        self._shards: list[tuple[Path, NDArray[np.generic]]] = []
        kind = np.dtype("<u2") if vocab_size <= 65536 else np.dtype("<u4")
        for path in paths:
            try:
                self._shards.append((path, _open(path, kind, seq_len)))
            except DataError as error:
                if not skip_bad:
                    raise
                self.skipped.append(str(error))
        windows = [(len(tokens) - 1) // seq_len for _, tokens in self._shards]
        self._ends = np.cumsum(windows, dtype=np.int64)
        self.num_windows = int(self._ends[-1]) if windows else 0
        if not self.num_windows:
            raise DataError(
                f"no shard has the {seq_len + 1} tokens of one sample ({len(paths)} shards)"
            )

    def sample(self, number: int) -> Tokens:
        """As Samples. Raises DataError for a token beyond the vocabulary, naming the shard."""
        epoch, position = divmod(number, self.num_windows)
        window = permuted(position, self.num_windows, key=(self.seed, epoch))
        shard = int(np.searchsorted(self._ends, window, side="right"))
        first = int(self._ends[shard - 1]) if shard else 0
        path, tokens = self._shards[shard]
        start = (window - first) * self.seq_len
        found = np.asarray(tokens[start : start + self.seq_len + 1]).astype(np.int64)
        if int(found.max()) >= self.vocab_size:
            raise DataError(
                f"{path.name}: token {int(found.max())} at {start} or later is beyond "
                f"vocab_size {self.vocab_size}"
            )
        return found


def _open(path: Path, kind: np.dtype[np.generic], seq_len: int) -> NDArray[np.generic]:
    size = path.stat().st_size
    if size % kind.itemsize:
        raise DataError(f"{path.name}: {size} bytes are not whole {kind.name} tokens")
    if size // kind.itemsize <= seq_len:
        raise DataError(
            f"{path.name}: {size // kind.itemsize} tokens are fewer than the {seq_len + 1} "
            "of one sample"
        )
    return np.memmap(path, dtype=kind, mode="r")


def permuted(position: int, size: int, *, key: tuple[int, int]) -> int:
    """Where `position` goes in a permutation of 0 … size - 1, without holding the permutation.

    A Feistel network on the next even number of bits, walked until it falls inside (Black &
    Rogaway 2002, "Ciphers with arbitrary finite domains").
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = np.random.default_rng(key).integers(1, 2**31, size=4)
    mask = (1 << half) - 1
    while True:
        left, right = position >> half, position & mask
        for round_key in keys:
            mixed = (right * 0x9E3779B1 + int(round_key)) & 0xFFFFFFFF
            mixed = ((mixed ^ (mixed >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
            left, right = right, left ^ ((mixed ^ (mixed >> 13)) & mask)
        position = (left << half) | right
        if position < size:
            return position


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro step of one rank: tokens and targets (B, T) int64; mask (B, 1, T, T) or None."""

    tokens: Tensor
    targets: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealer:
    """Deals the samples of a step to the micro steps and ranks.

    end_of_text: attention stops behind this token, if given.
    """

    samples: Samples
    micro_batch: int
    accumulation_steps: int
    world_size: int
    rank: int
    end_of_text: int | None = None

    @property
    def samples_per_step(self) -> int:
        return self.micro_batch * self.accumulation_steps * self.world_size

    def batches(self, first_sample: int) -> list[Batch]:
        """This rank's micro steps of the step that begins with sample `first_sample`."""
        return [self._batch(first_sample, micro) for micro in range(self.accumulation_steps)]

    def _batch(self, first_sample: int, micro: int) -> Batch:
        start = first_sample + (micro * self.world_size + self.rank) * self.micro_batch
        rows = [self.samples.sample(start + row) for row in range(self.micro_batch)]
        both = torch.from_numpy(np.stack(rows))
        tokens_BT = both[:, :-1].contiguous()
        mask = document_mask(tokens_BT, self.end_of_text)
        return Batch(tokens=tokens_BT, targets=both[:, 1:].contiguous(), mask=mask)


def document_mask(tokens_BT: Tensor, end_of_text: int | None) -> Tensor | None:
    """(B, 1, T, T), True where a token may look: back within its document. None without documents.

    A document ends with end_of_text.
    """
    if end_of_text is None:
        return None
    length = tokens_BT.shape[1]
    place_T = torch.arange(length)
    seen_TT = place_T.unsqueeze(1) >= place_T.unsqueeze(0)
    ends_BT = (tokens_BT == end_of_text).long()
    document_BT = ends_BT.cumsum(dim=1) - ends_BT
    same_BTT = document_BT.unsqueeze(2) == document_BT.unsqueeze(1)
    return (seen_TT & same_BTT).unsqueeze(1)

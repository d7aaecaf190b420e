"""Samples are the same by number, whoever asks; bad data is named."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from trainer.data import Dealer, ShardSamples, SyntheticSamples, document_mask, permuted
from trainer.errors import DataError
from trainer.text import text_shards, token_shards, tokenise


def write_shard(path: Path, tokens: list[int], kind: str = "<u2") -> Path:
    np.asarray(tokens, dtype=kind).tofile(path)
    return path


def shards(paths: list[Path], **changes: object) -> ShardSamples:
    settings = {"seq_len": 4, "vocab_size": 100, "seed": 0, "skip_bad": False, **changes}
    return ShardSamples(paths, **settings)  # type: ignore[arg-type]  # a test's shorthand


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_a_permutation_reaches_every_number_once(size: int) -> None:
    assert sorted(permuted(i, size, key=(1, 0)) for i in range(size)) == list(range(size))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(permuted(i, 50, key=key) for i in range(50)) for key in ((0, 0), (0, 1), (1, 0))
    }
    assert len(orders) == 3


def test_windows_cover_the_shards_once_an_epoch(tmp_path: Path) -> None:
    paths = [
        write_shard(tmp_path / "a.bin", list(range(13))),
        write_shard(tmp_path / "b.bin", list(range(50, 59))),
    ]
    samples = shards(paths)
    assert samples.num_windows == 5
    first = sorted(tuple(samples.sample(i)) for i in range(5))
    assert first == [
        (0, 1, 2, 3, 4),
        (4, 5, 6, 7, 8),
        (8, 9, 10, 11, 12),
        (50, 51, 52, 53, 54),
        (54, 55, 56, 57, 58),
    ]
    assert sorted(tuple(samples.sample(i)) for i in range(5, 10)) == first


def test_large_vocabularies_are_read_as_uint32(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.bin", [70000, 1, 2, 3, 4], "<u4")
    assert list(shards([path], vocab_size=80000).sample(0)) == [70000, 1, 2, 3, 4]


def test_a_token_beyond_the_vocabulary_names_the_shard(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.bin", [1, 2, 3, 4, 100])
    with pytest.raises(DataError, match=r"a\.bin: token 100 .* vocab_size 100"):
        shards([path]).sample(0)


def test_a_cut_shard_is_fatal_or_skipped_by_choice(tmp_path: Path) -> None:
    good = write_shard(tmp_path / "a.bin", list(range(9)))
    bad = tmp_path / "b.bin"
    bad.write_bytes(b"\0" * 11)
    with pytest.raises(DataError, match=r"b\.bin: 11 bytes"):
        shards([good, bad])
    samples = shards([good, bad], skip_bad=True)
    assert samples.num_windows == 2
    assert samples.skipped == ["b.bin: 11 bytes are not whole uint16 tokens"]


def test_a_sequence_longer_than_the_data_is_an_error(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.bin", [1, 2, 3])
    with pytest.raises(DataError, match="3 tokens are fewer than the 5"):
        shards([path])
    with pytest.raises(DataError, match="no shard has the 5 tokens"):
        shards([path], skip_bad=True)


def dealer(world_size: int, rank: int, micro_batch: int, steps: int = 1) -> Dealer:
    return Dealer(
        samples=SyntheticSamples(seq_len=8, vocab_size=64, seed=3),
        micro_batch=micro_batch,
        accumulation_steps=steps,
        world_size=world_size,
        rank=rank,
    )


def test_ranks_and_micro_steps_share_a_step_without_overlap() -> None:
    def rows(world_size: int, micro_batch: int, steps: int) -> list[tuple[int, ...]]:
        found = []
        for rank in range(world_size):
            for batch in dealer(world_size, rank, micro_batch, steps).batches(40):
                found += [tuple(row.tolist()) for row in batch.tokens]
        return sorted(found)

    alone = rows(1, 8, 1)
    assert rows(2, 2, 2) == alone
    assert rows(4, 1, 2) == alone
    assert len(alone) == 8


def test_targets_are_the_tokens_one_further() -> None:
    (batch,) = dealer(1, 0, 2).batches(0)
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert batch.mask is None


def test_documents_bound_attention() -> None:
    tokens = torch.tensor([[5, 9, 6, 7]])
    mask = document_mask(tokens, end_of_text=9)
    assert mask is not None
    assert mask[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert document_mask(tokens, end_of_text=None) is None


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "?": 3}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    return path


def convert(folder: Path, tokenizer: Path, **changes: object) -> list[str]:
    settings = {
        "tokenizer": tokenizer,
        "field": "text",
        "vocab_size": 10,
        "end_of_text": 9,
        "skip_bad": False,
        **changes,
    }
    return tokenise(text_shards(folder), folder / "tokens", **settings)  # type: ignore[arg-type]


def test_text_becomes_tokens_with_documents_ended(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    pq.write_table(pa.table({"text": ["b b", "z"]}), tmp_path / "y.parquet")
    assert convert(tmp_path, tokenizer) == []
    found = [np.fromfile(path, "<u2").tolist() for path in token_shards(tmp_path)]
    assert found == [[0, 1, 9, 2, 9], [1, 1, 9, 3, 9]]


def test_a_bad_line_names_shard_and_line_or_is_skipped(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"words": "c"}\n')
    (tmp_path / "y.jsonl").write_text(json.dumps({"text": "b"}))
    with pytest.raises(DataError, match=r"x\.jsonl, line 2"):
        convert(tmp_path, tokenizer)
    skipped = convert(tmp_path, tokenizer, skip_bad=True)
    assert len(skipped) == 1
    assert [path.name for path in token_shards(tmp_path)] == ["000001-y.bin"]


def test_a_broken_parquet_is_named(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match=r"x\.parquet"):
        convert(tmp_path, tokenizer)


def test_a_parquet_without_the_field_is_named(tmp_path: Path, tokenizer: Path) -> None:
    pq.write_table(pa.table({"words": ["b"]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet: no text in field 'text'"):
        convert(tmp_path, tokenizer)


def test_a_tokenizer_larger_than_the_vocabulary_is_refused(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(DataError, match="4 tokens, the model's vocab_size is 3"):
        convert(tmp_path, tokenizer, vocab_size=3)
    with pytest.raises(DataError, match="tokenizer file"):
        convert(tmp_path, tmp_path / "none.json")

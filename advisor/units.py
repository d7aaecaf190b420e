"""Units that exist only at the edges: inside, bytes are bytes and seconds are seconds."""

GIB = 1024**3
MIB = 1024**2
GB = 10**9
HOUR_S = 3600
DAY_HOURS = 24
TOKENS_PER_BILLION = 1_000_000_000


def gib(num_bytes: float) -> float:
    """Bytes as GiB (2^30)."""
    return num_bytes / GIB

"""The C library's allocator: one pool of memory for all threads."""

import ctypes
import sys

# Of glibc's malloc.h: the most arenas, the pools that threads allocate from.
M_ARENA_MAX = -8


def share_one_arena() -> bool:
    """Let all threads allocate from one pool; whether the C library knows how (glibc does).

    By default each thread has its own, which keeps what one search needed: with the threads that
    answer requests that adds up to hundreds of megabytes. Call it before there are threads.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(M_ARENA_MAX, 1) == 1

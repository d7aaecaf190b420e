"""Reasons to stop early: a signal, the end of the reservation, a step that does not come."""

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType

from trainer.errors import Hang

EXPIRATION = "SAGEMAKER_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"
# AWS takes the instances back 30 minutes before the block ends; saving needs some time before.
STOP_BEFORE_EXPIRATION_S = 40 * 60.0


class StopRequest:
    """Whether this process wants to stop, and why. Ranks must agree before any of them does."""

    def __init__(self, environment: Mapping[str, str], clock: Callable[[], float]) -> None:
        """clock: seconds since the epoch."""
        self._clock = clock
        self._signal: str | None = None
        expiration = environment.get(EXPIRATION)
        self._deadline_s = float(expiration) - STOP_BEFORE_EXPIRATION_S if expiration else None

    def watch_signals(self) -> None:
        """Take SIGTERM as a wish to stop after the current step."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = signal.Signals(number).name

    @property
    def reason(self) -> str | None:
        """Why this process wants to stop; None where it does not."""
        if self._signal:
            return self._signal
        if self._deadline_s is not None and self._clock() >= self._deadline_s:
            return "the reserved capacity expires in 40 minutes"
        return None


class Watchdog:
    """Ends the process, with all stacks on stderr, where a step does not come within a time.

    A rank that waits in a collective for a dead one cannot be interrupted otherwise.
    """

    def __init__(self, limit_s: float, *, leave: Callable[[int], None] = os._exit) -> None:
        """limit_s: 0 waits for ever. leave: ends the process."""
        self._limit_s, self._leave = limit_s, leave
        self._due_s = float("inf")
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def step_came(self) -> None:
        """Start the time anew."""
        self._due_s = time.monotonic() + self._limit_s

    def __enter__(self) -> "Watchdog":
        self.step_came()
        if self._limit_s > 0:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(timeout=min(1.0, self._limit_s / 4)):
            if time.monotonic() > self._due_s:
                sys.stderr.write(f"hang: no step within {self._limit_s:g} s; stacks follow\n")
                faulthandler.dump_traceback(all_threads=True)
                sys.stderr.flush()
                self._leave(Hang.exit_status)
                return

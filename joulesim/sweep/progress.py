"""How far a sweep is, on standard error."""

from __future__ import annotations

import sys
import time


class Progress:
    """One line that is written over: share done, points a second, time left."""

    def __init__(self, total: int, shown: bool, done: int = 0):
        self.total, self.shown, self.done, self.before = total, shown, done, done
        self.start = self.last = time.monotonic()

    def advance(self, points: int) -> None:
        """Count points as done."""
        self.done += points
        now = time.monotonic()
        if not self.shown or (now - self.last < 0.2 and self.done < self.total):
            return
        self.last = now
        rate = (self.done - self.before) / max(now - self.start, 1e-9)
        left = (self.total - self.done) / rate
        end = "\n" if self.done >= self.total else ""
        print(f"\r{self.done / self.total:4.0%} of {self.total:,} points, {rate:,.0f}/s, {_clock(left)} left ",
              end=end, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

"""What a stretch of calls does on one device, and how long it takes."""

from __future__ import annotations

from operator import add, sub
from typing import Any, NamedTuple

from joulesim.formulas import batching


class Work(NamedTuple):
    """What a stretch of calls does on one device, and how long its parts take at full clock."""

    bytes: Any = 0.0
    """Device-memory traffic. [B]"""
    flops: Any = 0.0
    """Arithmetic on 16-bit and wider operands. [FLOP]"""
    narrow_flops: Any = 0.0
    """Arithmetic on 8-bit and narrower operands. [FLOP]"""
    instructions: Any = 0.0
    """Lane instructions of unpacking. [instruction]"""
    link_bytes: Any = 0.0
    """Traffic to other devices. [B]"""
    busy: Any = 0.0
    """Time in matrix products and attention, where the next two overlap. [s]"""
    streaming: Any = 0.0
    """Time that their memory traffic would take alone. [s]"""
    issuing: Any = 0.0
    """Time that their arithmetic and unpacking would take alone. [s]"""
    sampling: Any = 0.0
    """Time in sampling. [s]"""
    launch: Any = 0.0
    """Time between kernels. [s]"""
    link: Any = 0.0
    """Time in collectives. [s]"""

    @property
    def device_time(self):
        """Time on the device. [s]"""
        return self.busy + self.sampling + self.launch + self.link

    def plus(self, other: Work) -> Work:
        """Both stretches."""
        return Work(*map(add, self, other))

    def less(self, other: Work) -> Work:
        """What is left when the other stretch is done anyway."""
        return Work(*map(sub, self, other))

    def times(self, n) -> Work:
        """The stretch repeated."""
        return Work(*(a * n for a in self))


class Stretch(NamedTuple):
    """Work with the time it takes once the host has its say."""

    work: Work
    host: Any
    """Time of the host's part alone. [s]"""
    time: Any
    """Time at full clock. [s]"""

    def plus(self, other: Stretch) -> Stretch:
        """Both, one after the other."""
        return Stretch(self.work.plus(other.work), self.host + other.host, self.time + other.time)

    def less(self, other: Stretch) -> Stretch:
        """What is left when the other is done anyway."""
        return Stretch(self.work.less(other.work), self.host - other.host, self.time - other.time)

    def times(self, n) -> Stretch:
        """The stretch repeated."""
        return Stretch(self.work.times(n), self.host * n, self.time * n)


def with_host(c, work: Work, host) -> Stretch:
    """Work on the device beside the host's time for it."""
    return Stretch(work, host, batching.step_time(work.device_time, host, c["host_exponent"]))

"""Workloads of published tables: who shares prompts with whom, and how far a finite run is from its steady state."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from joulesim import catalogue
from joulesim.validate.points import Point

_CELLS = 400
_SHARPNESS = 12.0


class Task(NamedTuple):
    """A request list that a benchmark sends, and its lengths."""

    unique: float | None = None
    """Different requests in the list; ``None``: every request is new."""
    prompt_spread: float = 1.0
    """Mean square over squared mean of the prompt length."""
    short_prompt: float = 1.0
    """New tokens of the prompts beside the long ones. [token]"""
    output_spread: float | None = None
    """The same of the output length, where a row does not say."""
    output_maximum: float | None = None
    conversation: bool = False
    """Each turn of a conversation is a request with the whole history before it, which a prefix cache holds."""


@cache
def tasks() -> dict[str, Task]:
    """Known request lists by name."""
    table = catalogue.read_yaml(catalogue.data_root() / "validation" / "published" / "tasks.yaml")
    return {name: Task(**{k: v for k, v in entry.items() if k != "source"}) for name, entry in table.items()}


def window(point: Point) -> tuple[float, float]:
    r"""
    Mean tokens generated so far by a running sequence, and steps that a request runs for, over a finite run.

    All requests are sent at once: ``batch`` slots start together at length zero and restart until the queue is empty.

    Parameters
    ----------
    point : Point
        Reads ``batch``, ``requests`` and the output lengths.

    Returns
    -------
    tuple of float
        Mean age [token] and steps per request [1].

    Notes
    -----
    Renewal equation on a grid with gamma lengths of the given mean and spread, cut at the maximum. Expected renewals
    :math:`m = f + m * f`; the age at :math:`t` is :math:`t S(t) + \sum_i m_i (t - t_i) S(t - t_i)`. The run ends where
    the renewals have used up the queue. For an endless stream :math:`E[L^2] / 2E[L]` and :math:`E[L]`.

    References
    ----------
    .. [1] D. R. Cox, "Renewal Theory," Methuen, 1962, chapters 4 and 5.
    """
    mean = point.output_tokens
    spread = point.output_spread
    if point.requests is None or point.requests <= point.batch:
        return mean * spread / 2.0, mean
    return _finite_window(point.batch, point.requests, mean, max(spread, 1.02), point.output_maximum or np.inf)


def _finite_window(slots: float, requests: float, mean: float, spread: float, maximum: float) -> tuple[float, float]:
    gammainc = _special().gammainc
    needed = (requests - slots) / slots
    shape = 1.0 / (spread - 1.0)
    scale = mean / shape
    horizon = (needed + 0.3) * mean * 1.6 + mean
    cells = int(min(1500, max(_CELLS, 30 * horizon / mean)))
    step = horizon / cells
    t = np.arange(cells + 1) * step
    ended = gammainc(shape, np.minimum(t, maximum) / scale)
    ended[t >= maximum] = 1.0
    density, alive = np.diff(ended), 1.0 - ended
    renewals = np.zeros(cells)
    for i in range(cells):
        renewals[i] = density[i] + (renewals[:i] @ density[i - 1::-1][:i] if i else 0.0)
    last = int(np.clip(np.searchsorted(np.cumsum(renewals), needed), 5, cells - 1))
    aged = t * alive
    age = aged[:cells] + np.convolve(renewals, aged[:cells])[:cells]
    mass = alive[:cells] + np.convolve(renewals, alive[:cells])[:cells]
    return float((age / mass)[:last].mean()), float(t[last] / needed)


def _special():
    from joulesim.validate.fit import scipy

    return scipy("special")


def new_share(point: Point, pool_tokens: float, history_share: float, caches_prefixes: bool) -> float:
    r"""
    Share of an admitted request's prompt that is not found in the prefix cache.

    Parameters
    ----------
    point : Point
        Reads ``task``, ``batch``, ``requests`` and ``prompt_tokens``.
    pool_tokens : float
        Tokens that the cache pool holds. [token]
    history_share : float
        New share of a conversation turn's prompt.
    caches_prefixes : bool
        Whether the engine caches prefixes of this model (hybrids with recurrent state do not).

    Returns
    -------
    float
        Share between 0 and 1.

    Notes
    -----
    A list that is sent again hits only if the pool holds all that is written between two uses of a prompt, answers
    included: least-recently-used eviction of a cyclic list is all or nothing, with a corner rounded for unequal
    lengths. First-time requests in the measured window are :math:`(U - b) / (N - b)`.

    References
    ----------
    .. [1] P. J. Denning, "The working set model for program behavior," Commun. ACM 11(5), 1968 (cyclic reference
       under LRU).
    """
    task = tasks().get(point.task, Task())
    if not caches_prefixes:
        return 1.0
    new = history_share if task.conversation else 1.0
    if not (task.unique and point.requests and point.requests > 1.4 * task.unique):
        return new
    reuse_tokens = task.unique * (point.prompt_tokens * new + point.output_tokens)
    held = 1.0 / (1.0 + (reuse_tokens / max(pool_tokens, 1.0)) ** _SHARPNESS)
    first_time = float(np.clip((task.unique - point.batch) / max(point.requests - point.batch, 1.0), 0.0, 1.0))
    return new * (1.0 - held * (1.0 - first_time))

"""What tokens look at, and what looking costs: attention, indexing, recurrent state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from joulesim.calls import issue_limited_bandwidth, product
from joulesim.formulas import attention, parallelism
from joulesim.inputs import Inputs, mean
from joulesim.specs.model import LATENT
from joulesim.work import Work


class Looked(NamedTuple):
    """What the tokens of a sequence look at, as expectations over lengths; per mixer where it depends on the mixer."""

    seen: tuple[Any, ...]
    """Query-key pairs. [token^2]"""
    read: tuple[Any, ...]
    """Reads of a cache entry. [token]"""
    earlier: Any
    """Pairs without any window, which an indexer goes through. [token^2]"""
    earlier_read: Any
    tokens: Any
    """Tokens that look, each also written to the cache. [token]"""
    token_reads: Any
    """Reads and writes of a recurrent state. [1]"""

    def times(self, n) -> Looked:
        """The same ``n`` times over."""
        return Looked(tuple(s * n for s in self.seen), tuple(r * n for r in self.read), *(v * n for v in self[2:]))


def looked(x: Inputs, first, last, queries) -> Looked:
    """
    What the tokens at ``first + 1 .. last`` of a sequence look at.

    ``queries`` of them share one read of what came before: 1 at decode, a chunk at prefill.
    """
    seen = [token_pairs(m, first, last) for m in x.mixers]
    earlier, tokens = attention.pairs(first, last, np.inf), last - first
    reads = tokens / queries
    ahead = (tokens - reads) / 2.0  # a chunk reads up to its own end, half a chunk further than its mean query sees
    return Looked(
        tuple(mean(s, x) for s in seen), tuple(mean(s / queries + ahead, x) for s in seen), mean(earlier, x),
        mean(earlier / queries + ahead, x), mean(tokens, x), mean(reads, x),
    )


def caught_running(x: Inputs) -> Looked:
    """One step of a sequence caught running, of which the mean context is known."""
    context = x.running_context
    seen = tuple(
        0.0 * context if m.kind in ("none", "linear", "mamba") else attention.mean_within(context, _tokens_within(m))
        for m in x.mixers
    )
    return Looked(seen, seen, context, context, 1.0, 1.0)


def of_prompt(x: Inputs) -> Looked:
    queries = np.maximum(np.minimum(x.prefill_chunk, x.prompt - x.cached), 1.0)
    return looked(x, x.cached, x.prompt, queries)


def look(x: Inputs, c: dict[str, Any], what: Looked, instructions, per_pair=0.0) -> Work:
    """
    Attention, indexing and recurrent state of one sequence.

    ``instructions`` are spent on each element read, for every query head, ``per_pair`` on each element and query.
    Each mixer's cost is homogeneous in what it looks at, so the expectation over lengths may be taken before it.
    """
    total = Work()
    rate = issue_limited_bandwidth(x, c) * c["attention_bandwidth_factor"]
    arithmetic_rate = x.compute_rate * c["attention_efficiency"]
    for m, seen, entries in zip(x.mixers, what.seen, what.read, strict=True):
        held = parallelism.cache_share(x.tensor, m.kv_heads) if m.kind not in LATENT else 1.0
        read = held * (entries * m.cache_elements + what.earlier_read * m.index_elements)
        written = held * what.tokens * (m.cache_elements + m.index_elements)
        heads = np.maximum(m.query_heads / x.tensor, x.latent_heads if m.kind in LATENT else 0.0)
        flops = (attention.flops(seen / m.compression, heads, m.key_width, m.value_width)
                 + (what.earlier * m.index_flops + what.tokens * m.state_flops) / x.tensor)
        group = m.query_heads / m.kv_heads if m.kv_heads else 1.0
        moved = (read + written) * x.cache_bytes + 2.0 * m.state_bytes * what.token_reads / x.tensor
        issued = (read * instructions + held * seen * m.cache_elements * per_pair) * group
        work = product(x, c, moved, flops, 0.0, issued, rate, flops / arithmetic_rate)
        total = total.plus(work.times(m.layers))
    return total


def issued(x: Inputs, c):
    """Lane instructions of decode attention for one cache element and query head. [instruction]"""
    return unpacked(x, c) + c["attention_instructions"]


def unpacked(x: Inputs, c):
    """Lane instructions that bring one cache element to an operand. [instruction]"""
    return x.cache_instructions + x.cache_quantised * c["cache_unpack_instructions"]


def token_pairs(mixer, first, last):
    """Query-key pairs of a mixer for the tokens at ``first + 1 .. last``. [token^2]"""
    if mixer.kind in ("none", "linear", "mamba"):
        return 0.0 * last
    if mixer.kind == "chunked":
        return attention.chunk_pairs(first, last, mixer.window)
    return attention.pairs(first, last, _tokens_within(mixer))


def _tokens_within(mixer) -> float:
    """Tokens that a query sees at most, those behind a compressed entry counted one by one."""
    return np.inf if mixer.window is None else mixer.window * mixer.compression

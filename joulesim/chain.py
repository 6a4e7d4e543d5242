"""
The chain: what a deployment does, how long it takes, what it costs.

Read :func:`run` from top to bottom. Everything is numpy on floats or arrays: the same lines serve one
prediction, the perturbed constants of an interval, and a block of a sweep. Counts are per device.
"""

from __future__ import annotations

from operator import add, sub
from typing import Any, NamedTuple

import numpy as np

from joulesim.formulas import attention, batching, calls, kv_cache, lengths, memory, parallelism, power, roofline
from joulesim.formulas import weights as weight_traffic
from joulesim.inputs import Inputs, Matrices
from joulesim.specs.model import GROWING


_LATENT = ("mla", "sparse")
"""Kinds of attention that keep one latent vector a token, which every device of a group holds whole."""


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


class Energy(NamedTuple):
    """Where the energy of a phase goes, over all devices. [J]"""

    static: Any
    active: Any
    compute: Any
    unpack: Any
    memory: Any
    link: Any


class Phase(NamedTuple):
    """Prefill or decode of a round of ``batch`` requests."""

    work: Work
    host: Any
    time: Any
    clock: Any
    energy: Energy

    def less(self, other: Phase) -> Phase:
        """What is left when the other is done anyway, at the same clock."""
        energy = Energy(*(a - b for a, b in zip(self.energy, other.energy, strict=True)))
        return Phase(self.work.less(other.work), self.host - other.host, self.time - other.time, self.clock, energy)


class Outcome(NamedTuple):
    """What the chain finds for a round of ``batch`` requests, before boundary and answers."""

    memory: dict[str, Any]
    max_batch: Any
    prefill: Phase
    decode: Phase
    first_token: Any
    """Time from the start of a request to its first token. [s]"""
    steps: Any
    """Decode steps of a request. [1]"""
    output_tokens: Any
    prompt_tokens: Any


def run(x: Inputs, c: dict[str, Any]) -> Outcome:
    """Memory, time and energy of a round of ``x.batch`` requests under the constants ``c``."""
    prefill, decode, first = _continuous(x, c) if x.continuous else _static(x, c)
    if x.continuous:  # one mixture of steps: the power limit sees their average, and prefill is what it adds
        whole = prefill.plus(decode)
        clock = clock_factor(x, c, whole)
        decode = phase(x, c, decode, clock)
        prefill = phase(x, c, whole, clock).less(decode)
    else:
        prefill = phase(x, c, prefill, clock_factor(x, c, prefill))
        decode = phase(x, c, decode, clock_factor(x, c, decode))
    return Outcome(
        memory=memory_parts(x),
        max_batch=largest_batch(x),
        prefill=prefill,
        decode=decode,
        first_token=power.time_at(prefill.clock, **_slowing(c, first)),
        steps=mean(np.maximum(x.new_tokens - 1.0, 0.0), x),
        output_tokens=mean(x.new_tokens, x),
        prompt_tokens=mean(x.prompt, x),
    )


def mean(value, x: Inputs):
    """Expectation over the lengths of requests."""
    return value if x.weight is None else np.sum(value * x.weight, axis=-1)


# --- how requests are run together ------------------------------------------------------------------------


def _static(x: Inputs, c) -> tuple[Stretch, Stretch, Stretch]:
    """
    A batch is prefilled in chunks of its prompts packed together, then decoded step by step.

    The prompt's last row yields the first token, so a request decodes one step less than its tokens.
    """
    batch, steps = x.batch / x.data, np.maximum(x.new_tokens - 1.0, 0.0)
    full, rest = batching.chunks((x.prompt - x.cached) * batch, x.prefill_chunk)
    matrices = layers(x, c, x.prefill_chunk).times(mean(full, x))
    for rows, share in lengths.groups(rest, x.weight):
        matrices = matrices.plus(layers(x, c, rows).times(share * np.minimum(rows, 1.0)))
    filled = matrices.plus(head(x, c, batch)).plus(look(x, c, _of_prompt(x), _unpacked(x, c)).times(batch))
    host = c["host_per_step"] + (c["eager_layer_overhead"] * x.layers if x.graph_rows == 0 else 0.0)
    prefill = _with_host(x, c, filled, mean(full + np.minimum(rest, 1.0), x) * host)

    if x.speculation is not None:
        return _speculative(x, c, prefill, steps)
    each = layers(x, c, batch).plus(head(x, c, batch)).plus(sample(x, c, batch)).times(mean(steps, x))
    decoded = each.plus(look(x, c, looked(x, x.prompt, x.prompt + steps, 1.0), _issued(x, c)).times(batch))
    decode = _with_host(x, c, decoded, mean(steps, x) * (host + c["host_per_sequence"] * batch))
    return prefill, decode, prefill


def _speculative(x: Inputs, c, prefill: Stretch, steps) -> tuple[Stretch, Stretch, Stretch]:
    """The draft reads the prompt too; decode runs in rounds."""
    from joulesim import rounds

    draft = x.speculation.draft
    if draft is not None:
        prefill = prefill.plus(_static(draft, c)[0])
    return prefill, rounds.decode(x, c, steps), prefill


def _continuous(x: Inputs, c) -> tuple[Stretch, Stretch, Stretch]:
    """
    Steps decode one token of every running sequence, and some of them carry the prompts that refill free slots.

    Prefill is what such a step costs beyond one that only decodes.
    """
    batch = x.batch / x.data
    tokens = mean(x.new_tokens, x)
    steps = tokens if x.steps_per_request is None else x.steps_per_request
    new = x.prompt - x.cached
    admissions = batch / steps
    rows = admissions * mean(new, x)
    carrying = batching.carrying_steps(admissions, mean(new, x), mean(new**2, x) * x.length_spread, x.prefill_chunk)

    if x.running_context is None:
        running = looked(x, x.prompt, x.prompt + x.new_tokens, 1.0).times(1.0 / tokens)
    else:
        running = _caught_running(x)
    reading = look(x, c, running, _issued(x, c)).times(batch)
    asked = look(x, c, _of_prompt(x), _unpacked(x, c)).times(admissions * x.length_spread)

    def step(extra_rows, admitted):
        work = layers(x, c, batch + extra_rows).plus(head(x, c, batch + admitted)).plus(sample(x, c, batch))
        host = c["host_per_step"] + c["host_per_sequence"] * batch
        eager = c["eager_layer_overhead"] * x.layers * np.where(batch + extra_rows > x.graph_rows, 1.0, 0.0)
        return _with_host(x, c, work.plus(reading).plus(asked), host + eager)

    brief = np.maximum(1.0 - np.exp(-admissions) - carrying, 0.0)  # steps that admit short prompts alone
    pure, mixed = step(0.0, 0.0), step(rows / carrying, admissions / carrying)
    average = pure.times(np.maximum(1.0 - carrying - brief, 0.0)).plus(mixed.times(carrying))
    average = average.plus(step(x.short_rows, 1.0).times(brief))
    plain = pure.less(_with_host(x, c, asked, 0.0))
    return average.less(plain).times(steps), plain.times(steps), mixed


def _with_host(x: Inputs, c, work: Work, host) -> Stretch:
    return Stretch(work, host, batching.step_time(work.device_time, host, c["host_exponent"]))


# --- what a call does ------------------------------------------------------------------------------------


def _product(x: Inputs, c, moved, flops, narrow_flops, instructions, rate, arithmetic_time) -> Work:
    """Work whose traffic, arithmetic and unpacking overlap."""
    streaming, exponent = moved / rate, c["overlap_exponent"]
    issuing = roofline.overlapped(arithmetic_time, instructions / instruction_rate(x, c), exponent=exponent)
    return Work(bytes=moved, flops=flops, narrow_flops=narrow_flops, instructions=instructions,
                busy=roofline.overlapped(streaming, issuing, exponent=exponent), streaming=streaming, issuing=issuing)


def _matrix_product(x: Inputs, c, m: Matrices, share, read, rows, rate, efficiency, narrow_efficiency,
                    instructions=None) -> Work:
    """
    Rows times matrices of which the device holds a ``share`` and reads ``read`` times.

    ``instructions`` on vector lanes; ``None`` for unpacking once a read.
    """
    unpacking = m.instructions * share * read if instructions is None else instructions
    time = rows * share * (m.seconds_per_row / efficiency + m.narrow_seconds_per_row / narrow_efficiency)
    return _product(
        x, c, m.bytes * share * read, rows * share * m.flops_per_row, rows * share * m.narrow_flops_per_row,
        unpacking, rate, time,
    )


def bandwidth(x: Inputs, c):
    """Sustained device-memory rate of dense products. [B/s]"""
    return x.memory_bandwidth * c["bandwidth_efficiency"]


def issue_limited_bandwidth(x: Inputs, c):
    """Sustained device-memory rate of kernels that vector issue limits too. [B/s]"""
    return bandwidth(x, c) * parallelism.issue_factor(x.instruction_rate, x.memory_bandwidth, c["issue_exponent"])


def instruction_rate(x: Inputs, c):
    """Sustained rate of unpacking. [instruction/s]"""
    return x.instruction_rate * c["instruction_efficiency"]


def layers(x: Inputs, c: dict[str, Any], rows) -> Work:
    """One call through the matrices of every layer with ``rows`` tokens of a replica, launches and collectives."""
    work = _dense_product(x, c, x.dense, rows)
    if x.expert_layers:
        work = work.plus(experts(x, c, rows))
    launch = c["layer_overhead"] * x.layers + c["moe_layer_overhead"] * x.expert_layers
    return work.plus(_collectives(x, c, rows))._replace(launch=launch)


def experts(x: Inputs, c, rows) -> Work:
    """Routed experts of every layer for ``rows`` tokens of each replica."""
    tokens = rows * (x.data if x.expert > 1 else 1.0)
    held = 1.0 / x.expert if x.expert > 1 else 1.0 / x.tensor
    touched = weight_traffic.distinct_experts(tokens, x.experts_routed, x.experts_per_token, c["expert_skew"])
    local = x.experts_routed / x.expert
    large = tokens > local if x.switches_tile else False
    tile = np.where(large, 64.0, 16.0) if x.expert_tile is None else x.expert_tile
    chosen = tokens * x.experts_per_token / x.experts_routed
    padded = chosen + touched / x.experts_routed * tile / 2.0
    rate = issue_limited_bandwidth(x, c) if x.issue_limited_experts else bandwidth(x, c)
    rate = rate * c["expert_bandwidth_factor"] * np.where(large, c["large_tile_factor"], 1.0)
    work = _matrix_product(x, c, x.routed, held, touched / x.experts_routed, padded, rate, c["expert_compute_efficiency"],
                           c["expert_compute_efficiency"])
    counted = (chosen + c["padding_activity"] * (padded - chosen)) / np.where(padded > 0, padded, 1.0)  # no rows, no tiles
    return work._replace(flops=work.flops * counted, narrow_flops=work.narrow_flops * counted)


def head(x: Inputs, c: dict[str, Any], rows) -> Work:
    """Output matrix for the ``rows`` whose logits are wanted."""
    return _dense_product(x, c, x.output, rows)


def _dense_product(x: Inputs, c, m: Matrices, rows) -> Work:
    """Rows times matrices that all of them need: a few rows on vector lanes, more on matrix units in whole tiles."""
    on_lanes = rows * (rows <= x.lane_rows)
    passes = weight_traffic.weight_passes(rows * (rows <= x.repeat_rows), x.rows_per_pass)
    tiled = calls.tiled_rows(rows - on_lanes, x.row_tile)
    a_row = c["row_instructions"] * (m.flops_per_row + m.narrow_flops_per_row) / 2.0
    issued = calls.lane_instructions(on_lanes, passes, m.instructions, a_row) / x.tensor
    return _matrix_product(x, c, m, 1.0 / x.tensor, passes, tiled, bandwidth(x, c), c["compute_efficiency"],
                           c["narrow_compute_efficiency"], issued)


def sample(x: Inputs, c, sequences) -> Work:
    """Sampling of ``sequences`` tokens: passes over the vocabulary, on every device alike."""
    return Work(sampling=sequences * x.vocabulary * c["sampling_bytes"] / x.memory_bandwidth)


def _collectives(x: Inputs, c, rows) -> Work:
    """Two reductions over the devices of a layer."""
    group = x.tensor * (x.data if x.expert > x.tensor else 1.0)
    if np.all(group <= 1):
        return Work()
    moved = 2.0 * x.layers * parallelism.all_reduce_bytes(rows * x.hidden_size * 2.0, group)
    latency = parallelism.collective_latency(c["collective_latency"], group, c["collective_exponent"])
    time = 2.0 * x.layers * latency + moved / (x.link_bandwidth * c["link_efficiency"])
    return Work(link_bytes=moved, link=time)


def _unpacked(x: Inputs, c):
    """Lane instructions that bring one cache element to an operand. [instruction]"""
    return x.cache_instructions + x.cache_quantised * c["cache_unpack_instructions"]


def _issued(x: Inputs, c):
    """Lane instructions of decode attention for one cache element and query head. [instruction]"""
    return _unpacked(x, c) + c["attention_instructions"]


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
    earlier = attention.pairs(first, last, np.inf)
    return Looked(
        tuple(mean(s, x) for s in seen), tuple(mean(s / queries, x) for s in seen), mean(earlier, x),
        mean(earlier / queries, x), mean(last - first, x), mean((last - first) / queries, x),
    )


def _caught_running(x: Inputs) -> Looked:
    """One step of a sequence caught running, of which the mean context is known."""
    context = x.running_context
    seen = tuple(
        0.0 * context if m.kind in ("none", "linear", "mamba") else attention.mean_within(context, _tokens_within(m))
        for m in x.mixers
    )
    return Looked(seen, seen, context, context, 1.0, 1.0)


def _of_prompt(x: Inputs) -> Looked:
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
        held = parallelism.cache_share(x.tensor, m.kv_heads) if m.kind not in _LATENT else 1.0
        read = held * (entries * m.cache_elements + what.earlier_read * m.index_elements)
        written = held * what.tokens * (m.cache_elements + m.index_elements)
        heads = np.maximum(m.query_heads / x.tensor, x.latent_heads if m.kind in _LATENT else 0.0)
        flops = (attention.flops(seen / m.compression, heads, m.key_width, m.value_width)
                 + (what.earlier * m.index_flops + what.tokens * m.state_flops) / x.tensor)
        group = m.query_heads / m.kv_heads if m.kv_heads else 1.0
        moved = (read + written) * x.cache_bytes + 2.0 * m.state_bytes * what.token_reads / x.tensor
        issued = (read * instructions + held * seen * m.cache_elements * per_pair) * group
        work = _product(x, c, moved, flops, 0.0, issued, rate, flops / arithmetic_rate)
        total = total.plus(work.times(m.layers))
    return total


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


# --- what it costs ---------------------------------------------------------------------------------------


def _energies(x: Inputs, c, stretch: Stretch):
    """Memory, link, clock-on, arithmetic and unpacking energy of a device at full clock. [J]"""
    work, scale = stretch.work, c["power_residual"]
    working = (work.busy + work.sampling + c["launch_activity"] * work.launch
               + c["link_activity"] * work.link) * c["time_residual"]
    return (
        scale * c["energy_per_byte"] * work.bytes,
        scale * c["energy_per_link_byte"] * work.link_bytes,
        scale * c["active_power"] * working,
        scale * c["energy_per_flop"] * (work.flops + c["narrow_flop_energy"] * work.narrow_flops),
        scale * c["energy_per_instruction"] * work.instructions,
    )


def clock_factor(x: Inputs, c, stretch: Stretch):
    """Clock that keeps the average power of a stretch within the limit, at most the mode's. [1]"""
    moved, linked, active, compute, unpack = _energies(x, c, stretch)
    time = stretch.time * c["time_residual"]
    some = time > 0
    within = power.clock_factor(
        x.power_limit * c["limit_margin"], c["power_residual"] * c["static_power"], moved + linked, compute + unpack,
        active / np.where(some, time, 1.0), c["voltage_share"], **_slowing(c, stretch),
    )
    unpriced = np.isnan(moved + linked + active + compute + unpack + c["static_power"])  # then no limit can be checked
    return np.minimum(np.where(unpriced, 1.0, within), x.clock)


def _slowing(c, stretch: Stretch) -> dict[str, Any]:
    """How the time of a stretch depends on the clock, for :func:`joulesim.formulas.power.time_at`."""
    work, p, residual = stretch.work, c["overlap_exponent"], c["time_residual"]
    return {
        "fixed": (stretch.time - work.busy - work.launch) * residual, "launched": work.launch * residual,
        "overlapped": work.busy * residual, "chip_share": roofline.share_of(work.issuing, work.streaming, exponent=p),
        "exponent": p,
    }


def phase(x: Inputs, c, stretch: Stretch, clock) -> Phase:
    """Time and energy of a stretch at a clock, energy over all devices."""
    moved, linked, active, compute, unpack = _energies(x, c, stretch)
    time = power.time_at(clock, **_slowing(c, stretch))
    full = stretch.time * c["time_residual"]
    active = active * clock * time / np.where(full > 0, full, 1.0)
    devices = x.tensor * x.data
    cheaper = power.energy_at(clock, 1.0, c["voltage_share"]) * devices
    energy = Energy(
        static=c["power_residual"] * c["static_power"] * time * devices, active=active * cheaper,
        compute=compute * cheaper, unpack=unpack * cheaper, memory=moved * devices, link=linked * devices,
    )
    return Phase(stretch.work, stretch.host, time, clock, energy)


def bounds(x: Inputs, c, p: Phase) -> dict[str, Any]:
    """Time that each limit of a phase would take alone; the largest one binds. [s]"""
    return {
        "memory": p.work.bytes / bandwidth(x, c),
        "compute": p.work.flops / (x.compute_rate * c["compute_efficiency"])
        + p.work.narrow_flops / (x.narrow_compute_rate * c["narrow_compute_efficiency"]),
        "unpack": p.work.instructions / instruction_rate(x, c),
        "sampling": p.work.sampling,
        "launch": p.work.launch,
        "link": p.work.link,
        "host": p.host,
    }


# --- what fits ------------------------------------------------------------------------------------------


_BOTH_MODELS = ("weights", "kv_cache", "kv_cache_per_sequence", "kv_cache_shared", "buffers")
"""Parts that a draft model adds to."""


def memory_parts(x: Inputs) -> dict[str, Any]:
    """Arithmetic of one device's memory, part by part. [B]"""
    batch = x.batch / x.data
    sequence = sequence_bytes(x, x.context)
    shared = growing_bytes(x, mean(x.cached, x)) if x.shares_prefix else 0.0
    held = 1.0 / x.expert if x.expert > 1 else 1.0 / x.tensor
    parts = {
        "capacity": x.memory_capacity,
        "usable": x.memory_capacity * x.memory_share - x.context_reserve,
        "context_reserve": x.context_reserve,
        "weights": x.routed.bytes * held
        + (x.dense.bytes + x.output.bytes + (0.0 if x.embedding_on_host else x.looked_up_bytes)) / x.tensor,
        "kv_cache": shared + (sequence - shared) * batch,
        "kv_cache_per_sequence": sequence - shared,
        "kv_cache_shared": shared,
        "buffers": memory.logits_bytes(x.prefill_chunk if x.logits_for_chunk else batch, x.vocabulary)
        + x.prefill_chunk * (4.0 * x.activation_copies * x.hidden_size + x.mask_bytes * x.context) + x.workspace,
    }
    if x.speculation is None or x.speculation.draft is None:
        return parts
    beside = memory_parts(x.speculation.draft._replace(batch=x.batch))
    return parts | {name: parts[name] + beside[name] for name in _BOTH_MODELS}


def largest_batch(x: Inputs):
    """Most sequences that fit; an engine that keeps one row of logits a sequence pays for each."""
    parts = memory_parts(x._replace(batch=0.0))
    a_row = 0.0 if x.logits_for_chunk else memory.logits_bytes(1.0, x.vocabulary)
    return x.data * memory.largest_batch(parts["usable"], parts["weights"], parts["buffers"], parts["kv_cache_shared"],
                                         parts["kv_cache_per_sequence"] + a_row)


def sequence_bytes(x: Inputs, context):
    """Cache and recurrent state of one sequence with ``context`` tokens on one device. [B]"""
    windowed = sum(
        m.layers * parallelism.cache_share(x.tensor, m.kv_heads) * kv_cache.resident_bytes(
            kv_cache.cells(context, m.window + x.window_extra, x.kv_block), m.cache_elements, x.cache_bytes)
        for m in x.mixers if m.kind in ("sliding", "chunked")
    )
    return growing_bytes(x, context) + windowed + sum(m.layers * m.state_bytes for m in x.mixers) / x.tensor


def growing_bytes(x: Inputs, context):
    """The part of a sequence's cache that grows with each token: what a shared prefix saves. [B]"""
    total = 0.0
    for m in x.mixers:
        if m.kind in GROWING:
            share = parallelism.cache_share(x.tensor, m.kv_heads) if m.kind not in _LATENT else 1.0
            count = kv_cache.cells(context, np.inf, x.kv_block)
            kept = m.cache_elements + m.index_elements
            total = total + m.layers * share * kv_cache.resident_bytes(count, kept, x.cache_bytes)
    return total

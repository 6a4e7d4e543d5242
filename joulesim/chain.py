"""
The chain: what a deployment does, how long it takes, what it costs.

Read :func:`run` from top to bottom. Everything is numpy on floats or arrays: the same lines serve one
prediction, the perturbed constants of an interval, and a block of a sweep. Counts are per device.

:mod:`joulesim.calls` and :mod:`joulesim.attending` say what one call does, :mod:`joulesim.rounds` what speculation
makes of it, :mod:`joulesim.cost` what it costs, :mod:`joulesim.capacity` what fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from joulesim import rounds
from joulesim.attending import caught_running, issued, look, looked, of_prompt, unpacked
from joulesim.calls import head, layers, sample
from joulesim.capacity import largest_batch, memory_parts
from joulesim.cost import Phase, phase, slowing
from joulesim.formulas import batching, lengths, power
from joulesim.inputs import Inputs, mean
from joulesim.work import Stretch, with_host


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
    if x.continuous:  # one mixture of steps: the power limit sees their average, and prefill is what it adds
        added, plain, mixed = _continuous(x, c)
        whole = phase(x, c, added.plus(plain))
        decode = phase(x, c, plain, whole.clock)
        prefill = whole.less(decode)
        first_token = power.time_at(whole.clock, **slowing(c, mixed))
    else:
        prefill, decode = (phase(x, c, stretch) for stretch in _static(x, c))
        first_token = prefill.time
    memory = memory_parts(x)
    return Outcome(
        memory=memory,
        max_batch=largest_batch(x, memory),
        prefill=prefill,
        decode=decode,
        first_token=first_token,
        steps=mean(np.maximum(x.new_tokens - 1.0, 0.0), x),
        output_tokens=mean(x.new_tokens, x),
        prompt_tokens=mean(x.prompt, x),
    )


def _static(x: Inputs, c) -> tuple[Stretch, Stretch]:
    """
    A batch is prefilled in chunks of its prompts packed together, then decoded step by step.

    The prompt's last row yields the first token, so a request decodes one step less than its tokens.
    """
    batch, steps = x.call_batch, np.maximum(x.new_tokens - 1.0, 0.0)
    full, rest = batching.chunks((x.prompt - x.cached) * batch, x.prefill_chunk)
    matrices = layers(x, c, x.prefill_chunk).times(mean(full, x))
    for rows, share in lengths.groups(rest, x.weight):
        matrices = matrices.plus(layers(x, c, rows).times(share * np.minimum(rows, 1.0)))
    logits = head(x, c, batch)
    filled = matrices.plus(logits).plus(look(x, c, of_prompt(x), unpacked(x, c)).times(batch))
    host = c["host_per_step"] + (c["eager_layer_overhead"] * x.layers if x.graph_rows == 0 else 0.0)
    prefill = with_host(c, filled, mean(full + np.minimum(rest, 1.0), x) * host)

    if x.speculation is not None:
        return _speculative(x, c, prefill, steps)
    each = layers(x, c, batch).plus(logits).plus(sample(x, c, batch)).times(mean(steps, x))
    decoded = each.plus(look(x, c, looked(x, x.prompt, x.prompt + steps, 1.0), issued(x, c)).times(batch))
    decode = with_host(c, decoded, mean(steps, x) * (host + c["host_per_sequence"] * batch))
    return prefill, decode


def _speculative(x: Inputs, c, prefill: Stretch, steps) -> tuple[Stretch, Stretch]:
    """The draft reads the prompt too; decode runs in rounds."""
    draft = x.speculation.draft
    if draft is not None:
        prefill = prefill.plus(_static(draft, c)[0])
    return prefill, rounds.decode(x, c, steps)


def _continuous(x: Inputs, c) -> tuple[Stretch, Stretch, Stretch]:
    """
    Steps decode one token of every running sequence, and some of them carry the prompts that refill free slots.

    Prefill is what such a step costs beyond one that only decodes.
    """
    batch = x.call_batch
    tokens = mean(x.new_tokens, x)
    steps = tokens if x.steps_per_request is None else x.steps_per_request
    new = x.prompt - x.cached
    admissions = batch / steps
    rows = admissions * mean(new, x)
    carrying = batching.carrying_steps(admissions, mean(new, x), mean(new**2, x) * x.length_spread, x.prefill_chunk)

    if x.running_context is None:
        running = looked(x, x.prompt, x.prompt + x.new_tokens, 1.0).times(1.0 / tokens)
    else:
        running = caught_running(x)
    reading = look(x, c, running, issued(x, c)).times(batch)
    asked = look(x, c, of_prompt(x), unpacked(x, c)).times(admissions * x.length_spread)
    always = reading.plus(asked).plus(sample(x, c, batch))
    host = (c["host_per_step"] + c["host_per_sequence"] * batch) * x.in_flight
    eager = c["eager_layer_overhead"] * x.layers

    def step(extra_rows, admitted, launched):
        work = layers(x, c, batch + extra_rows).plus(head(x, c, batch + admitted)).plus(always)
        return with_host(c, work, host + launched)

    brief = np.maximum(1.0 - np.exp(-admissions) - carrying, 0.0)  # steps that admit short prompts alone
    pure = step(0.0, 0.0, eager * (batch > x.graph_rows))  # captured graphs serve steps that only decode
    mixed = step(rows / carrying, admissions / carrying, eager)
    average = pure.times(np.maximum(1.0 - carrying - brief, 0.0)).plus(mixed.times(carrying))
    average = average.plus(step(x.short_rows, 1.0, eager).times(brief))
    plain = pure.less(with_host(c, asked, 0.0))
    return average.less(plain).times(steps), plain.times(steps), mixed

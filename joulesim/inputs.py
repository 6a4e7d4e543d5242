"""A scenario as the numbers the chain works with. An unknown number is ``nan`` and its reason is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from joulesim import catalogue
from joulesim.errors import Fault, InputError
from joulesim.formulas import batching, lengths
from joulesim.models.mixes import weight_table
from joulesim.scenario import Scenario
from joulesim.specs.format import FormatSpec
from joulesim.specs.model import Mixer, ModelSpec
from joulesim.specs.workload import Histogram, LogNormal, Trace

_LOOKED_UP = "input_embedding"
_LAST_ROW = "output"
_ON_DEMAND = "routed_expert"
_NARROW = ("int8", "fp8", "fp4")
_READ_AS_STORED = ("fp8", "fp4")
"""Number types that a matrix unit with a rate for them reads without unpacking."""


class Matrices(NamedTuple):
    """Weights that are read together."""

    bytes: float = 0.0
    """Stored size. [B]"""
    instructions: float = 0.0
    """Lane instructions to unpack them once. [instruction]"""
    flops_per_row: float = 0.0
    """Arithmetic of one row on 16-bit and wider operands. [FLOP/token]"""
    narrow_flops_per_row: float = 0.0
    """Arithmetic of one row on 8-bit and narrower operands. [FLOP/token]"""
    seconds_per_row: float = 0.0
    """Time of the former at dense peak rate. [s/token]"""
    narrow_seconds_per_row: float = 0.0
    """Time of the latter at dense peak rate. [s/token]"""


class Inputs(NamedTuple):
    """Every number that a prediction rests on, beside the constants. SI; any of them may be an array."""

    # device
    memory_capacity: Any
    memory_bandwidth: Any
    compute_rate: Any
    """Dense 16-bit peak. [FLOP/s]"""
    narrow_compute_rate: Any
    """Dense 8-bit peak; the 16-bit one where there is none. [FLOP/s]"""
    instruction_rate: Any
    """Lane instructions per second at peak: half the fp32 rate. [instruction/s]"""
    link_bandwidth: Any
    power_limit: Any
    clock: Any
    resident_power: Any
    host_power: Any
    psu_efficiency: Any
    chip_share_of_memory_energy: Any
    # model in its formats
    dense: Matrices
    routed: Matrices
    output: Matrices
    looked_up_bytes: float
    mixers: tuple[Mixer, ...]
    layers: int
    hidden_size: int
    vocabulary: int
    experts_routed: float
    experts_per_token: float
    expert_layers: float
    expert_outer: float
    """Elements that a token's products with one routed expert read and write in the model's width, over all layers. [1]"""
    expert_inner: float
    """The same in the expert's own width. [1]"""
    cache_bytes: Any
    """Stored size of one cache element. [B]"""
    cache_instructions: Any
    """Lane instructions to take one cache element out of its block. [instruction]"""
    cache_quantised: float
    """1 where cache blocks have scales, else 0."""
    # runtime
    continuous: bool
    rows_per_pass: Any
    """Rows that the smallest matrix-vector kernel serves with one pass over the weights. [token]"""
    repeat_rows: Any
    """Rows up to which that kernel is used. [token]"""
    lane_rows: Any
    """Rows up to which products run on vector lanes. [token]"""
    row_tile: Any
    """Rows of a tile of the matrix units. [token]"""
    prefill_chunk: Any
    graph_rows: float
    """Rows up to which a step replays a captured graph. [token]"""
    latent_heads: float
    """Query heads that kernels of latent attention pad to on each device. [1]"""
    expert_tile: float | None
    """Rows of an expert kernel's tile; ``None``: 16, or 64 once it switches. [token]"""
    switches_tile: bool
    issue_limited_experts: bool
    tensor: Any
    expert: Any
    data: Any
    pipeline: float
    memory_share: Any
    context_reserve: Any
    workspace: Any
    logits_for_chunk: bool
    activation_copies: float
    mask_bytes: float
    embedding_on_host: bool
    shares_prefix: bool
    kv_block: float
    window_extra: float
    """Cells kept beyond a sliding window. [token]"""
    # workload: nodes on the last axis where lengths are distributed
    prompt: Any
    cached: Any
    new_tokens: Any
    weight: Any
    """Probability of each node; ``None`` when lengths are single numbers."""
    steps_per_request: Any
    """Engine steps that a request runs for, where a record knows better than its output length. [1]"""
    length_spread: Any
    """Mean square over squared mean of the new prompt tokens, where only that is known; 1 for single numbers. [1]"""
    short_rows: Any
    """Rows of the prompts beside the long ones, where lengths spread. [token]"""
    running_context: Any
    """Mean context of a running sequence, where a record knows better than the lengths. [token]"""
    context: Any
    """Cells that a sequence takes: reserved whole, or on average while it runs where blocks are paged. [token]"""
    batch: Any
    utilisation: Any
    speculation: Any = None
    """:class:`joulesim.rounds.Plan` of drafted decoding; ``None``: every token in its own step."""

    @property
    def devices(self):
        """Devices of the deployment. [1]"""
        return self.tensor * self.data * self.pipeline

    @property
    def in_flight(self):
        """Micro-batches that the stages of a pipeline work on at a time: one where an engine makes call after call. [1]"""
        if self.pipeline == 1.0 or not self.continuous:
            return 1.0
        return np.minimum(self.pipeline, self.batch / self.data)

    @property
    def working_devices(self):
        """Devices that work at a time; the other stages wait. [1]"""
        return self.tensor * self.data * self.in_flight

    @property
    def call_batch(self):
        """Sequences in a call of one replica. [sequence]"""
        return self.batch / self.data if self.pipeline == 1.0 else self.batch / (self.data * self.in_flight)


class Unknown(NamedTuple):
    """A number that is not known: the field, and why."""

    field: str
    reason: str


def gather(scenario: Scenario) -> tuple[Inputs, list[Unknown], list[str]]:
    """
    Inputs of a scenario, what is unknown among them, and the assumptions made on the way.

    Raises
    ------
    InputError
        When the scenario asks for something that does not exist: a context beyond the model's, a cache format
        that the runtime lacks, a feature that is not modelled yet.
    """
    assumptions: list[str] = list(scenario.model.notes)
    cache = _cache_format(scenario, assumptions)
    _refuse(scenario, cache)
    hardware, runtime, model = scenario.hardware, scenario.runtime, scenario.model
    unknown: list[Unknown] = []

    def known(field: str, value):
        if value is None:
            unknown.append(Unknown(f"hardware.{field}", hardware.why_unknown(field)))
            return math.nan
        return value

    rates = hardware.compute_rate
    half = hardware.matrix_rate
    compute_rate = known("compute_rate.fp16", half)
    if rates.fp16 is None and half is not None:
        stands_in = "fp32 rate" if rates.fp32 is not None else "measured rate"
        assumptions.append(f"{hardware.name} has no 16-bit matrix rate: products run at its {stands_in}")
    vectors = half if rates.fp32 is None and hardware.kind == "cpu" else rates.fp32  # a CPU's vectors do both
    lane = known("compute_rate.fp32", vectors) / 2
    if hardware.memory_bandwidth is None and hardware.streaming_rate is not None:
        assumptions.append(f"{hardware.name} has no datasheet bandwidth: the measured one stands in")

    rules, degrees = runtime.memory, scenario.serving.parallelism
    if degrees.pipeline > 1:
        assumptions.append(f"serving.parallelism.pipeline: layers lie evenly on {degrees.pipeline} stages, "
                           + ("micro-batches in all of them at a time" if runtime.scheduler == "continuous"
                              else "one of which works at a time"))
    kernel = runtime.expert_kernel(expert_format(scenario))
    groups = {_ON_DEMAND: [], _LAST_ROW: [], _LOOKED_UP: [], "dense": []}
    for row in scenario.weight_rows:
        groups.get(row.role, groups["dense"]).append(row)
    prompt, new, weight = _nodes(scenario)
    if runtime.scheduler == "continuous":
        prompt = np.maximum(prompt, 1.0)  # a request is admitted with at least its start of sequence
    longest = prompt + new if weight is None else float(np.max(prompt + new))
    reserved = longest if scenario.serving.context is None else float(scenario.serving.context)
    if np.ndim(longest) == 0:
        _refuse_length(scenario, longest, reserved)
    one = weight is not None or np.ndim(prompt) == 0  # arrays of a sweep are told point by point
    if one and np.ndim(scenario.workload.shared_prefix_tokens) == 0 and (fault := scenario.workload.prefix_fault()):
        raise InputError(fault)
    paged = runtime.scheduler == "continuous" and scenario.serving.context is None
    context = batching.running_context(prompt, new, weight) if paged else reserved
    return Inputs(
        memory_capacity=known("memory_capacity", hardware.memory_capacity),
        memory_bandwidth=known("memory_bandwidth", hardware.streaming_rate),
        compute_rate=compute_rate,
        narrow_compute_rate=next((rate for rate in (rates.fp8, rates.int8) if rate is not None), compute_rate),
        instruction_rate=lane,
        link_bandwidth=math.nan if hardware.link_bandwidth is None else hardware.link_bandwidth,
        power_limit=_power_limit(scenario, unknown, assumptions),
        clock=hardware.power_modes[scenario.power_mode].clock if scenario.power_mode else 1.0,
        resident_power=math.nan if hardware.idle_power.resident is None else hardware.idle_power.resident,
        host_power=math.nan if hardware.system.host_power is None else hardware.system.host_power,
        psu_efficiency=math.nan if hardware.system.psu_efficiency is None else hardware.system.psu_efficiency,
        chip_share_of_memory_energy=math.nan if hardware.chip_share_of_memory_energy is None
        else hardware.chip_share_of_memory_energy,
        dense=_matrices(groups["dense"], scenario.formats, rates, half),
        routed=_matrices(groups[_ON_DEMAND], scenario.formats, rates, half),
        output=_matrices(groups[_LAST_ROW], scenario.formats, rates, half),
        looked_up_bytes=sum(row.bytes for row in groups[_LOOKED_UP]),
        mixers=model.mixers,
        layers=model.layers,
        hidden_size=model.hidden_size,
        vocabulary=model.vocabulary,
        experts_routed=model.experts.routed if model.experts else 1.0,
        experts_per_token=model.experts.per_token if model.experts else 0.0,
        expert_layers=float(model.experts.layers) if model.experts else 0.0,
        expert_outer=_expert_elements(model, lambda width: width == model.hidden_size),
        expert_inner=_expert_elements(model, lambda width: width != model.hidden_size),
        cache_bytes=cache.bytes_per_weight,
        cache_instructions=cache.unpack_instructions or 0.0,
        cache_quantised=float((cache.block_weights or 1) > 1),
        continuous=runtime.scheduler == "continuous",
        rows_per_pass=float(runtime.sequences_per_weight_pass or math.inf),
        repeat_rows=float(runtime.repeat_rows),
        lane_rows=float(runtime.lane_rows),
        row_tile=float(runtime.row_tile),
        prefill_chunk=float(runtime.prefill_chunk),
        graph_rows=math.inf if (rows := runtime.graph_limit(model.architecture)) is None else float(rows),
        latent_heads=float(runtime.latent_attention_heads),
        expert_tile=kernel.tile,
        switches_tile=kernel.switches_tile and degrees.tensor * degrees.data > 1,
        issue_limited_experts=kernel.issue_limited,
        tensor=float(degrees.tensor),
        expert=float(degrees.expert),
        data=float(degrees.data),
        pipeline=float(degrees.pipeline),
        memory_share=rules.utilisation,
        context_reserve=rules.context_reserve,
        workspace=rules.workspace,
        logits_for_chunk=rules.logits_rows == "chunk",
        activation_copies=rules.activation_copies,
        mask_bytes=rules.mask_bytes,
        embedding_on_host=rules.input_embedding_on_host,
        shares_prefix=rules.shares_prefix,
        kv_block=float(rules.kv_block),
        window_extra=float(runtime.prefill_chunk) if rules.window_cells == "window+chunk" else 0.0,
        prompt=prompt,
        cached=np.minimum(scenario.workload.shared_prefix_tokens, np.maximum(prompt - 1.0, 0.0)),
        new_tokens=new,
        weight=weight,
        steps_per_request=None,
        length_spread=1.0,
        short_rows=1.0,
        running_context=None,
        context=context,
        batch=scenario.serving.batch * 1.0,
        utilisation=scenario.serving.utilisation,
        speculation=_speculation(scenario, assumptions),
    ), unknown, assumptions


def _speculation(scenario: Scenario, assumptions: list[str]):
    """Plan of drafted decoding, the draft as a scenario of its own beside the target."""
    spec = scenario.speculation
    if spec.method == "none":
        return None
    from joulesim import rounds

    rounds.refuse(scenario, assumptions)
    draft = None
    if spec.method == "draft":
        beside = scenario.model_copy(update={
            "model": spec.draft_model, "weights": spec.draft_weights, "speculation": type(spec)(),
            "kv_cache": spec.draft_kv_cache or scenario.kv_cache})
        beside._weight_rows = weight_table(beside.model, beside.weights, beside.formats)
        draft = gather(beside)[0]
    plan = rounds.Plan(rounds.expected_round(spec), draft, spec.kv_carry)
    assumptions.append(f"speculation: {plan.round.tokens:.2f} tokens a round, {plan.round.drafted:.2f} drafted, "
                       f"{plan.round.wasted:.2f} thrown away")
    return plan


def _expert_elements(model: ModelSpec, counted: Callable[[int], bool]) -> float:
    """Operands and results of a token's products with one routed expert, over all layers."""
    return float(sum(len(t.layers) * width for t in model.tensors if t.role == _ON_DEMAND
                     for width in (t.columns, t.rows) if counted(width)))


def expert_format(scenario: Scenario) -> str | None:
    """Block format in which most routed expert weights are stored; ``None`` for a dense model."""
    rows = [row for row in scenario.weight_rows if row.role == _ON_DEMAND]
    return max(rows, key=lambda row: row.weights).format if rows else None


def expert_class(scenario: Scenario) -> str | None:
    """Kernel class of the routed experts: their format, with ``-native`` where the device multiplies 4-bit operands."""
    name = expert_format(scenario)
    native = name and scenario.formats[name].number_type == "fp4" and scenario.hardware.compute_rate.fp4
    return f"{name}-native" if native else name


def _matrices(rows, formats, rates, half) -> Matrices:
    """Rows of a weight table added up; a number type without a rate on the device computes in 16 bit."""
    total = dict.fromkeys(Matrices._fields, 0.0)
    for row in rows:
        layout = formats[row.format]
        rate = getattr(rates, layout.number_type)
        narrow = layout.number_type in _NARROW and rate is not None
        prefix = "narrow_" if narrow else ""
        total["bytes"] += row.bytes
        if not (narrow and layout.number_type in _READ_AS_STORED):
            total["instructions"] += row.weights * (layout.unpack_instructions or 0.0)
        total[f"{prefix}flops_per_row"] += 2.0 * row.weights
        total[f"{prefix}seconds_per_row"] += 2.0 * row.weights / (rate if narrow else math.nan if half is None else half)
    return Matrices(**total)


def _cache_format(scenario: Scenario, assumptions: list[str]) -> FormatSpec:
    if scenario.kv_cache is not None:
        return scenario.kv_cache
    name = scenario.model.kv_format or "f16"
    why = f"{scenario.model.name} asks for it" if scenario.model.kv_format else "the default"
    assumptions.append(f"kv_cache: {name} ({why})")
    return catalogue.load_format(name)


def _refuse(scenario: Scenario, cache: FormatSpec) -> None:
    """Every combination that cannot run, together."""
    faults = []
    hardware, runtime, serving = scenario.hardware, scenario.runtime, scenario.serving
    degrees = serving.parallelism
    if degrees.pipeline > scenario.model.layers:
        faults.append(Fault("serving.parallelism.pipeline", f"expected at most the {scenario.model.layers} layers of "
                            f"{scenario.model.name}, got {degrees.pipeline}"))
    odd = [m.query_heads for m in scenario.model.mixers if m.query_heads % degrees.tensor]
    if odd:
        faults.append(Fault("serving.parallelism.tensor", f"expected a divisor of {odd[0]} query heads, "
                            f"got {degrees.tensor}"))
    if degrees.expert > 1 and scenario.model.experts is None:
        faults.append(Fault("serving.parallelism.expert", f"expected 1: {scenario.model.name} has no routed experts, "
                            f"got {degrees.expert}"))
    elif degrees.expert > 1 and degrees.expert != degrees.tensor * degrees.data:
        faults.append(Fault("serving.parallelism.expert", f"expected 1 or tensor x data = {degrees.tensor * degrees.data}, "
                            f"got {degrees.expert}"))
    if degrees.tensor * degrees.data * degrees.pipeline > 1 and hardware.link_bandwidth is None:
        faults.append(Fault("hardware.link_bandwidth", f"is unknown ({hardware.why_unknown('link_bandwidth')})",
                            "several devices need it; give it with --set hardware.link_bandwidth"))
    if not cache.cache:
        faults.append(Fault("kv_cache", f"expected a cache format, got {cache.name}", "`joulesim formats` lists them"))
    elif cache.name not in runtime.kv_formats:
        faults.append(Fault("kv_cache", f"expected a cache format of {runtime.name} ({', '.join(runtime.kv_formats)}), "
                            f"got {cache.name}"))
    elif runtime.quantised_cache_needs_flash_attention and cache.block_weights > 1 and not serving.flash_attention:
        faults.append(Fault("serving.flash_attention", f"expected true: {runtime.name} quantises the V cache "
                            f"({cache.name}) only with flash attention", "set it, or use f16"))
    if faults:
        raise InputError(faults)


def too_long(scenario: Scenario, longest, reserved):
    """Where a request outgrows the context reserved for it, and where that outgrows the model's."""
    return reserved < longest, reserved > (scenario.model.max_context or math.inf)


def _refuse_length(scenario: Scenario, longest: float, reserved: float) -> None:
    beyond_reserved, beyond_model = too_long(scenario, longest, reserved)
    if beyond_reserved:
        raise InputError(Fault("serving.context", f"expected at least the longest request, {longest:.0f} tokens, "
                               f"got {reserved:.0f}"))
    if beyond_model:
        model = scenario.model
        raise InputError(Fault("workload", f"expected a context of at most {model.max_context} tokens for {model.name}, "
                               f"got {reserved:.0f}", "shorten the prompt or the output"))


def _power_limit(scenario: Scenario, unknown: list[Unknown], assumptions: list[str]) -> float:
    """Lowest of the rating, the mode's limit and the operator's cap; ``nan`` when a named mode has none."""
    hardware = scenario.hardware
    limits = [limit for limit in (hardware.power_limit, scenario.power_cap) if limit is not None]
    if scenario.power_mode:
        mode = hardware.power_modes[scenario.power_mode]
        if mode.power_limit is not None:
            limits = [mode.power_limit, *([] if scenario.power_cap is None else [scenario.power_cap])]
        elif scenario.power_cap is None:
            unknown.append(Unknown(f"hardware.power_modes.{scenario.power_mode}.power_limit",
                                   hardware.why_unknown(f"power_modes.{scenario.power_mode}.power_limit")))
            return math.nan
    elif hardware.power_modes:
        assumptions.append(f"power_mode: as rated (modes: {', '.join(hardware.power_modes)})")
    return reduce(np.minimum, limits, math.inf)


def _nodes(scenario: Scenario):
    """Prompt and generated lengths with the weight of each pair; ``None`` as weight for plain numbers."""
    workload = scenario.workload
    cut = workload.max_output_tokens or math.inf
    prompt, prompt_weight = _length(workload.prompt_tokens, "prompt_tokens")
    output, output_weight = _length(workload.output_tokens, "output_tokens")
    output = np.minimum(output + workload.thinking_tokens, cut)
    if prompt_weight is None and output_weight is None:
        return prompt, output, None
    if _one_trace(workload.prompt_tokens, workload.output_tokens):
        return prompt, output, prompt_weight
    prompt, output = np.broadcast_arrays(np.atleast_1d(prompt)[:, None], np.atleast_1d(output)[None, :])
    weight = np.multiply.outer(np.ones(1) if prompt_weight is None else prompt_weight,
                               np.ones(1) if output_weight is None else output_weight)
    return prompt.ravel(), output.ravel(), weight.ravel()


def _one_trace(prompt, output) -> bool:
    return isinstance(prompt, Trace) and isinstance(output, Trace) and prompt.file == output.file


def _length(declared, field: str):
    if isinstance(declared, LogNormal):
        return lengths.lognormal_nodes(declared.mean, declared.sd, declared.maximum)
    if isinstance(declared, Histogram):
        return lengths.histogram_nodes(declared.edges, declared.counts)
    if isinstance(declared, Trace):
        values = np.asarray(declared.lengths)
        return values, np.full(values.size, 1.0 / values.size)
    return declared * 1.0, None


def mean(value, x: Inputs):
    """Expectation over the lengths of requests."""
    return value if x.weight is None else np.sum(value * x.weight, axis=-1)

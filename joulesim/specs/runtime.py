"""An inference engine on a kind of device: kernel regimes, overheads and memory rules."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from joulesim.specs.base import Count, Spec, Whole, fraction, non_negative, positive

Framing = Literal["batched", "uniform"]


class MemoryRules(Spec):
    """What an engine needs beside weights and cache."""

    utilisation: fraction(strict=True) = 1.0
    """Share of the device memory that the engine takes."""
    context_reserve: non_negative("byte") = 0.0
    """Driver context, libraries and display. [B]"""
    workspace: non_negative("byte") = 0.0
    """Library workspaces. [B]"""
    logits_rows: Literal["chunk", "batch"] = "batch"
    """Rows for which output logits are buffered in fp32: a whole prefill chunk, or one a sequence."""
    activation_copies: non_negative("") = 2.0
    """Hidden-state sized fp32 buffers per row of a chunk, the widest FFN activation counted apart."""
    input_embedding_on_host: bool = False
    """The input embedding table stays in host memory."""
    mask_bytes: non_negative("byte") = 0.0
    """Attention mask per cache cell of a sequence and row of a chunk. [B]"""
    kv_block: Count = 1
    """Tokens in one block of a paged cache; a sequence holds whole blocks."""
    window_cells: Literal["window", "window+chunk"] = "window"
    """Cells kept for a sliding-window layer."""
    shares_prefix: bool = False
    """Sequences with a common prefix hold it once."""


class Overheads(Spec):
    """Time that is neither memory traffic nor arithmetic."""

    kernel_launch: non_negative("second") = 0.0
    """Gap between dependent kernels. [s]"""
    kernels_per_layer: non_negative("") = 0.0
    host_per_step: non_negative("second") = 0.0
    """Host work of one engine step, beside or behind the device work. [s]"""
    host_per_sequence: non_negative("second") = 0.0
    """Host work per running sequence and step. [s]"""
    host_overlaps_device: bool = False
    """Host work of the next step runs while the device computes; else they take turns."""


class ExpertKernel(Spec):
    """How a runtime multiplies with routed experts of a weight format."""

    tile: positive("") | None = None
    """Rows of a tile; ``None``: 16, or 64 once it switches. [token]"""
    switches_tile: bool = False
    """Untuned on several devices: a larger tile once a step has more rows than local experts."""
    issue_limited: bool = False
    """Streams at the rate that vector issue allows, not at that of dense products."""


_PLAIN_KERNEL = ExpertKernel()


class RuntimeSpec(Spec):
    """An engine and the back end it runs on."""

    name: str
    title: str = ""
    engine: str
    backend: str = ""
    constants_of: str = ""
    """Runtime whose constants hold here too; empty: its own."""
    scheduler: Literal["static", "continuous"] = "static"
    """``static`` prefills a batch, then decodes it; ``continuous`` refills finished slots while others decode."""
    prefill_chunk: Count = 512
    """Most prompt tokens in one call (llama.cpp ``n_ubatch``, vLLM ``max_num_batched_tokens``)."""
    sequences_per_weight_pass: Count | None = None
    """Rows that the smallest matrix-vector kernel serves with one pass over the weights; ``None``: all."""
    repeat_rows: Whole = 0
    """Rows up to which that kernel is used, passing over the weights again and again."""
    lane_rows: Whole = 0
    """Rows up to which a product runs in a matrix-vector kernel on vector lanes; 0: matrix units do all."""
    row_tile: Count = 1
    """Rows of a tile of the matrix units; a call pays for whole tiles. [token]"""
    kv_formats: tuple[str, ...] = ("f16",)
    """Cache formats the engine has."""
    quantised_cache_needs_flash_attention: bool = False
    decode_attention_instructions: non_negative("") = 0.0
    """Lane instructions per cache element and query head at decode; 0 where matrix units do it."""
    cache_unpack_instructions: non_negative("") = 0.0
    """Lane instructions that convert and scale one element of a quantised cache, again for every query head."""
    weight_formats: tuple[str, ...] = ()
    """Families of weight formats it reads; empty: any."""
    activation_framing: Literal["per-tensor", "per-row", "none"] = "none"
    """Scope of dynamic activation quantisation; ``per-tensor`` makes acceptance depend on how tokens are fed."""
    memory: MemoryRules = MemoryRules()
    overheads: Overheads = Overheads()
    graph_rows: Whole | None = None
    """Rows up to which steps replay a captured graph; larger ones launch kernel by kernel, from the host. ``None``: no
    such limit; 0: an eager engine, whose launches run on the host beside the device."""
    graph_rows_of: dict[str, Count] = Field(default_factory=dict)
    """The same for architectures that the engine treats apart."""
    latent_attention_heads: Whole = 0
    """Query heads that kernels of latent attention (MLA) pad to on each device; 0: none."""
    expert_kernels: dict[str, ExpertKernel] = Field(default_factory=dict)
    """Kernels by weight format of the experts; ``default`` for the others."""

    def graph_limit(self, architecture: str) -> int | None:
        """Rows up to which steps of an architecture replay a captured graph."""
        return self.graph_rows_of.get(architecture, self.graph_rows)

    def expert_kernel(self, weight_format: str | None) -> ExpertKernel:
        """Kernel for routed experts stored in a format."""
        return self.expert_kernels.get(weight_format or "default", self.expert_kernels.get("default", _PLAIN_KERNEL))

"""A language model as shapes: its matrices, how its layers mix tokens, what is stored per token."""

from __future__ import annotations

from typing import Literal, NamedTuple

MixerKind = Literal["full", "sliding", "chunked", "mla", "sparse", "compressed", "linear", "mamba", "none"]

GROWING = ("full", "mla", "sparse", "compressed")
"""Kinds whose cache grows with every token."""

LATENT = ("mla", "sparse")
"""Kinds of attention that keep one latent vector a token, which every device of a group holds whole."""

Role = Literal[
    "input_embedding", "output", "attention", "recurrent", "dense_ffn", "shared_expert", "routed_expert", "router", "vector",
]
"""What a matrix is for. ``input_embedding`` is looked up (one row a token); ``routed_expert`` is read only when
touched; ``vector`` is a norm, bias or other small tensor. Tied embeddings are one ``output`` matrix, whose rows
are looked up too."""


class Tensor(NamedTuple):
    """Equal matrices of a model. ``columns`` is the contiguous row, the direction in which blocks are quantised."""

    name: str
    """Path of the first of them, with ``{}`` for the layer and expert number, e.g. ``model.layers.{}.mlp.down_proj``."""
    role: Role
    rows: int
    columns: int
    layers: tuple[int, ...]
    """Layers that have it, empty for a tensor outside the layers."""
    copies: int = 1
    """Matrices per layer: the number of routed experts, or 1."""
    format: str | None = None
    """Weight format in which a checkpoint stores it, ``None`` when the scenario decides."""

    @property
    def count(self) -> int:
        """Matrices of this shape in the whole model."""
        return max(len(self.layers), 1) * self.copies

    @property
    def weights(self) -> int:
        """Weights in all of them."""
        return self.rows * self.columns * self.count


class Mixer(NamedTuple):
    """
    How a group of equal layers looks at earlier tokens, and what it keeps of each.

    A layer that attends to two things (DeepSeek-V4: a window, and compressed entries) is counted in two mixers.
    """

    kind: MixerKind
    layers: int
    """Layers of this kind."""
    query_heads: int = 0
    kv_heads: int = 0
    key_width: int = 0
    """Elements of one head's query-key product."""
    value_width: int = 0
    """Elements of one head's value."""
    cache_elements: float = 0.0
    """Elements kept per token and layer that attention reads (K and V, or the MLA latent); 0 where layers share a cache."""
    index_elements: float = 0.0
    """Further elements kept per token and layer for choosing what to attend to (sparse indexer). """
    index_flops: float = 0.0
    """Arithmetic of that choice per query token, earlier token and layer. [FLOP]"""
    window: int | None = None
    """Tokens seen at most (sliding), chunk length (chunked), tokens chosen (sparse), or entries chosen (compressed)."""
    compression: int = 1
    """Earlier tokens summarised into one cache entry (compressed attention)."""
    state_bytes: int = 0
    """Recurrent state per sequence and layer. [B]"""
    state_flops: float = 0.0
    """Arithmetic on the recurrent state per token and layer. [FLOP]"""


class Experts(NamedTuple):
    """Routing of the mixture-of-experts layers."""

    routed: int
    per_token: int
    shared: int
    layers: int


class ModelSpec(NamedTuple):
    """
    A decoder-only language model.

    Only the language model is here: vision towers and multi-token-prediction heads are counted apart in
    ``left_out``. Built by :mod:`joulesim.models` from a ``config.json``, a ``.gguf`` or a YAML of ``scenarios/models``.
    """

    name: str
    architecture: str
    layers: int
    hidden_size: int
    vocabulary: int
    max_context: int | None
    tied_embeddings: bool
    mixers: tuple[Mixer, ...]
    tensors: tuple[Tensor, ...]
    experts: Experts | None = None
    weight_format: str | None = None
    """Format in which the checkpoint stores most weights (``None``: the config does not say)."""
    kv_format: str | None = None
    """Cache format the checkpoint asks for."""
    left_out: dict[str, int] = {}
    """Parameters of parts not counted, e.g. ``{"multi-token prediction": 11_500_000_000}``; 0 when not known."""
    notes: tuple[str, ...] = ()
    """What was read in an unobvious way, one line each: printed among the assumptions."""
    source: str = ""
    """Where the figures come from."""

    @property
    def parameters(self) -> int:
        """Weights of the language model."""
        return sum(t.weights for t in self.tensors)

    @property
    def active_parameters(self) -> int:
        """Weights that one token uses, input embedding table included."""
        share = self.experts.per_token / self.experts.routed if self.experts else 1.0
        return round(sum(t.weights * (share if t.role == "routed_expert" else 1.0) for t in self.tensors))

    @property
    def active_parameters_without_input_embedding(self) -> int:
        """Weights that one token uses, without the table in which it is looked up."""
        return self.active_parameters - sum(t.weights for t in self.tensors if t.role == "input_embedding")

"""Embedding tables, the output matrix, and Gemma's tables and projections for each layer."""

from __future__ import annotations

from joulesim.models.parts import Parts

VOCABULARY = ("vocab_size", "padded_vocab_size")
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "n_ctx",
    "model_max_length",
)


def read_embeddings(parts: Parts, vocabulary: int, tied: bool) -> None:
    """Add the token table and the output matrix; tied, they are one matrix with the role ``output``."""
    family, hidden = parts.family, parts.hidden
    width = parts.fields.whole("word_embed_proj_dim", default=hidden)
    if width != hidden:
        parts.fields.fault(
            "word_embed_proj_dim",
            f"expected the hidden size {hidden}, got {width}",
            "a projected embedding is not modelled",
        )
    if tied:
        parts.matrix(family.embedding, "output", vocabulary, hidden)
    else:
        parts.matrix(family.embedding, "input_embedding", vocabulary, hidden)
        parts.matrix(family.output, "output", vocabulary, hidden)
    if family.output_bias:
        parts.vector(f"{family.output}.bias", vocabulary)
    if family.positions:
        field, extra = family.positions
        parts.matrix("positions", "input_embedding", parts.fields.whole(field, *CONTEXT) + extra, hidden)


def read_layer_embeddings(parts: Parts, layers: int) -> None:
    """Add Gemma's second embedding table, with one narrow row a layer for each token, and what uses it."""
    fields, hidden = parts.fields, parts.hidden
    width = fields.whole("hidden_size_per_layer_input", default=0, low=0)
    if not width:
        return
    rows = fields.whole("vocab_size_per_layer_input", *VOCABULARY)
    parts.matrix("model.embed_tokens_per_layer", "input_embedding", rows, layers * width)
    parts.matrix("model.per_layer_model_projection", "dense_ffn", layers * width, hidden)
    parts.vector("model.per_layer_projection_norm", width)
    parts.matrix(parts.layer("per_layer_input_gate"), "dense_ffn", width, hidden, range(layers))
    parts.matrix(parts.layer("per_layer_projection"), "dense_ffn", hidden, width, range(layers))
    parts.vector(parts.layer("post_per_layer_input_norm"), hidden, range(layers))


def read_alternating_updates(parts: Parts, layers: int) -> None:
    """Add Gemma 3n's parallel residual streams (AltUp) and low-rank bypass (LAuReL)."""
    fields, hidden = parts.fields, parts.hidden
    streams, rank = (
        fields.whole("altup_num_inputs", default=0, low=0, high=64),
        fields.whole("laurel_rank", default=0, low=0),
    )
    fields.ignore(("altup_active_idx", "altup_coef_clip", "altup_correct_scale", "altup_lr_multiplier"))
    if streams:
        for name in ("altup_projections", "altup_unembed_projections"):
            for number in range(streams - 1):
                parts.matrix(f"model.{name}.{number}", "dense_ffn", hidden, hidden)
        parts.matrix(parts.layer("altup.modality_router"), "dense_ffn", streams, hidden, range(layers))
        parts.vector(parts.layer("altup.coefficients"), streams**2 + streams**3, range(layers))
        parts.vector(parts.layer("altup.norms"), 2 * hidden, range(layers))
    if rank:
        parts.matrix(parts.layer("laurel.linear_left"), "dense_ffn", rank, hidden, range(layers))
        parts.matrix(parts.layer("laurel.linear_right"), "dense_ffn", hidden, rank, range(layers))
        parts.vector(parts.layer("laurel.post_laurel_norm"), hidden, range(layers))

"""
Random-weight GGUF files of any shape and format.

Time and energy of a call do not depend on what the weights say, so a file that takes a second to write stands in for a
download of any size. Every matrix repeats one tile of random rows: the file is as large as the real one, memory holds a
tile. Logits are finite and of ordinary size, but rows of a matrix repeat, so the text means nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from joulesim.errors import Fault, InputError, JoulesimError, did_you_mean
from joulesim.measure.gguf_table import Table, read_table
from joulesim.specs.base import Count, Spec

TILE_BYTES = 8 << 20
"""Largest tile of random rows. [B]"""
_SPECIAL = 259
"""Tokens of the vocabulary that are no words: unknown, begin, end, and 256 bytes."""


class Shape(Spec):
    """Sizes of a decoder."""

    family: Literal["llama", "gemma3"] = "llama"
    """What stands around the matrices: Gemma 3 normalises queries, keys and what a block adds, and its gate is a GELU."""
    width: Count
    """Channels of the hidden state."""
    layers: Count
    heads: Count
    kv_heads: Count
    ffn: Count
    """Width of the feed-forward network, of one expert where there are experts."""
    vocabulary: Count
    head_dim: Count | None = None
    """Channels of a head; ``None``: width over heads."""
    tied: bool = True
    """Input and output embedding are one matrix."""
    experts: Count | None = None
    experts_used: Count | None = None
    """Routed experts of a token."""
    context: Count = 131072
    """Longest context that the file declares. [token]"""

    @model_validator(mode="after")
    def _fits_together(self):
        if self.head_dim is None and self.width % self.heads:
            raise ValueError(f"expected a width divisible by heads, got {self.width} and {self.heads}; set head_dim")
        if self.heads % self.kv_heads:
            raise ValueError(f"expected heads divisible by kv_heads, got {self.heads} and {self.kv_heads}")
        if (self.head_dim or self.width // self.heads) % 2:
            raise ValueError("expected an even head_dim, which rotary embedding pairs; change heads or head_dim")
        if self.vocabulary <= _SPECIAL:
            raise ValueError(f"expected a vocabulary of more than {_SPECIAL}, got {self.vocabulary}")
        if (self.experts is None) != (self.experts_used is None) or (self.experts_used or 0) > (self.experts or 0):
            raise ValueError(f"expected experts_used of experts, got {self.experts_used} of {self.experts}")
        if self.family == "gemma3" and self.experts:
            raise ValueError("expected no experts in a gemma3, which has none; leave them out or take family llama")
        return self

    @property
    def head_channels(self) -> int:
        """Channels of a head."""
        return self.head_dim or self.width // self.heads

    @property
    def parameters(self) -> int:
        """Weights of all matrices and norms, a tied embedding counted once."""
        return sum(int(np.prod(size)) for _, size in tensors(self))


SHAPES = {
    name: Shape(width=width, layers=layers, heads=heads, kv_heads=kv_heads, ffn=ffn, vocabulary=vocabulary)
    for name, width, layers, heads, kv_heads, ffn, vocabulary in (
        ("s13", 512, 4, 8, 4, 1536, 4096),
        ("s50", 768, 8, 12, 4, 2048, 4096),
        ("s150", 1024, 12, 16, 4, 3072, 8192),
        ("s500", 1536, 18, 24, 8, 4608, 8192),
        ("s1b", 2048, 22, 32, 8, 5632, 8192),
        ("s8b", 4096, 32, 32, 8, 14336, 128256),
        ("wide-shallow", 2048, 4, 32, 8, 6144, 8192),
        ("deep-narrow", 512, 28, 8, 4, 2048, 4096),
    )
}
_GEMMA = Shape(family="gemma3", width=128, layers=4, heads=4, kv_heads=1, head_dim=256, ffn=4096, vocabulary=4096)
_THIN = Shape(width=128, layers=1, heads=2, kv_heads=1, ffn=256, vocabulary=512)
SHAPES |= {
    "s150-h128": SHAPES["s150"].model_copy(update={"heads": 8}),
    "gemma": _GEMMA, "gemma-as-llama": _GEMMA.model_copy(update={"family": "llama"}),
    "many-heads": Shape(width=256, layers=2, heads=8, kv_heads=8, head_dim=128, ffn=512, vocabulary=512),
    "thin-1": _THIN, "thin-24": _THIN.model_copy(update={"layers": 24}),
}
"""Shapes by name: ``s150`` has about 150 million weights; the last ones are for what is no matrix."""


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and size of every tensor, rows first, in the order of the file."""
    width, ffn = shape.width, shape.ffn
    queries, keys = shape.heads * shape.head_channels, shape.kv_heads * shape.head_channels
    yield "token_embd.weight", (shape.vocabulary, width)
    if not shape.tied:
        yield "output.weight", (shape.vocabulary, width)
    yield "output_norm.weight", (width,)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", (width,)
        yield block + "ffn_norm.weight", (width,)
        if shape.family == "gemma3":
            yield block + "post_attention_norm.weight", (width,)
            yield block + "post_ffw_norm.weight", (width,)
            yield block + "attn_q_norm.weight", (shape.head_channels,)
            yield block + "attn_k_norm.weight", (shape.head_channels,)
        yield block + "attn_q.weight", (queries, width)
        yield block + "attn_k.weight", (keys, width)
        yield block + "attn_v.weight", (keys, width)
        yield block + "attn_output.weight", (width, queries)
        if shape.experts:
            yield block + "ffn_gate_inp.weight", (shape.experts, width)
            yield block + "ffn_gate_exps.weight", (shape.experts, ffn, width)
            yield block + "ffn_up_exps.weight", (shape.experts, ffn, width)
            yield block + "ffn_down_exps.weight", (shape.experts, width, ffn)
        else:
            yield block + "ffn_gate.weight", (ffn, width)
            yield block + "ffn_up.weight", (ffn, width)
            yield block + "ffn_down.weight", (width, ffn)


def write(path: str | os.PathLike, shape: Shape, weights: str, seed: int = 0) -> Path:
    """
    Write a model whose every matrix is in one format.

    The file appears whole or not at all.

    Raises
    ------
    InputError
        When the format is unknown or does not divide the rows of a matrix.
    """
    gguf = _gguf()
    path, kind = Path(path), _kind(gguf, weights)
    _check_rows(gguf, shape, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        _write_header(gguf, partial, shape, kind)
        with open(partial, "ab") as out:
            for name, size in tensors(shape):
                _write_tensor(gguf, out, size, _kind_of(gguf, name, size, kind), seed)
        os.replace(partial, path)
    except OSError as error:
        what = f"expected room for the file, got {error.strerror}"
        raise InputError(Fault(str(path), what, "choose another folder")) from None
    finally:
        partial.unlink(missing_ok=True)
    return path


def write_sizes(path: str | os.PathLike, shape: Shape, weights: str) -> Path:
    """Write a model's sizes and format alone, for engines that draw their weights themselves."""
    path, sizes = Path(path), shape.model_dump(exclude={"sources"})
    path.write_text(json.dumps({**sizes, "weights": weights, "parameters": shape.parameters,
                                "head_channels": shape.head_channels}))
    return path


class Matrices(NamedTuple):
    """Equal matrices of a file."""

    place: str
    """
    ``embedding``, ``output``, ``layer``, ``expert`` for those of routed experts, or ``last`` for others that come behind the
    attention of the last layer.
    """
    rows: int
    columns: int
    format: str
    count: int


def matrices(path: str | os.PathLike) -> list[Matrices]:
    """
    Matrices of a ``.gguf`` by place, size and format, as they are stored and not as the file's name says.

    A tied embedding is listed at both of its places. Matrices of experts are counted expert by expert. What the last layer
    does behind its attention llama.cpp does for those rows alone whose logits are wanted (``inp_out_ids`` of its graphs).
    """
    return _matrices(read_table(path))


def _matrices(table: Table) -> list[Matrices]:
    found: dict[tuple[str, int, int, str], int] = {}
    names = {tensor.name for tensor in table.tensors}
    family = table.keys.get("general.architecture", "")
    behind = f"blk.{table.keys.get(f'{family}.block_count', 0) - 1}.ffn_"
    for tensor in table.tensors:
        columns, *others = tensor.size
        if not others:
            continue
        rows, copies = others[0], int(np.prod(others[1:], initial=1))
        places = []
        if tensor.name.startswith("blk."):
            places = ["expert" if others[1:] else "last" if tensor.name.startswith(behind) else "layer"]
        if tensor.name == "token_embd.weight":
            places = ["embedding"] if "output.weight" in names else ["embedding", "output"]
        elif tensor.name == "output.weight":
            places = ["output"]
        for place in places:
            key = (place, rows, columns, tensor.format)
            found[key] = found.get(key, 0) + copies
    return [Matrices(*key, count) for key, count in found.items()]


def _gguf():
    try:
        import gguf
    except ImportError:
        what, remedy = "the package that writes model files is missing", "pip install 'joulesim[gguf]'"
        raise MissingGguf(Fault("gguf", what, remedy)) from None
    return gguf


class MissingGguf(InputError, JoulesimError):
    """The ``gguf`` package is not installed."""


_FILLED = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "IQ3_XXS", "IQ3_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "TQ1_0", "TQ2_0", "MXFP4",
)
FORMATS = tuple(name.lower() for name in _FILLED)
"""Formats that can be written."""
_SCALES = {
    "Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,), "Q3_K": (108,), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
    "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ1_S": (0,), "TQ1_0": (52,),
    "TQ2_0": (64,),
}
"""Byte at which a block keeps its fp16 scale (ggml ``ggml-common.h``)."""
_SCALES_AND_OFFSETS = {
    "Q4_1": (0, 2, -7.5), "Q5_1": (0, 2, -15.5), "Q2_K": (80, 82, 1.5), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5),
}
"""Bytes of scale and offset, and the offset per scale that centres the weights on zero."""


def _kind(gguf, weights: str):
    if weights.lower() not in FORMATS:
        hint = did_you_mean(weights.lower(), FORMATS) or f"there is {', '.join(FORMATS)}"
        raise InputError(Fault("weights", f"expected a format that can be written, got {weights!r}", hint))
    return gguf.GGMLQuantizationType[weights.upper()]


def _check_rows(gguf, shape: Shape, kind) -> None:
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    uneven = {size[-1] for _, size in tensors(shape) if len(size) > 1 and size[-1] % block}
    if uneven:
        rows = ", ".join(map(str, sorted(uneven)))
        what = f"expected rows of a multiple of {block} for {kind.name.lower()}, got {rows}"
        raise InputError(Fault("shape", what, "change width, ffn or head_dim, or take a format with blocks of 32"))


def _kind_of(gguf, name: str, size: tuple[int, ...], kind):
    """Norms and routers stay in fp32, as llama.cpp keeps them."""
    return gguf.GGMLQuantizationType.F32 if len(size) == 1 or "ffn_gate_inp" in name else kind


def _write_header(gguf, path: Path, shape: Shape, kind) -> None:
    writer = gguf.GGUFWriter(str(path), shape.family)
    writer.add_name("synthetic")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_channels)
    writer.add_value_length(shape.head_channels)
    writer.add_rope_dimension_count(shape.head_channels)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    if shape.family == "gemma3":
        writer.add_sliding_window(shape.context)  # no layer looks at less than the others
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
    writer.add_file_type(_file_type(gguf, kind))
    _write_vocabulary(gguf, writer, shape.vocabulary)
    for name, size in tensors(shape):
        stored = _kind_of(gguf, name, size, kind)
        block, block_bytes = gguf.GGML_QUANT_SIZES[stored]
        in_bytes = (*size[:-1], size[-1] // block * block_bytes)
        plain = stored == gguf.GGMLQuantizationType.F32
        writer.add_tensor_info(name, size if plain else in_bytes, np.dtype(np.float32 if plain else np.uint8),
                               int(np.prod(in_bytes)), None if plain else stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()


def _file_type(gguf, kind) -> int:
    names = (f"MOSTLY_{kind.name}", f"MOSTLY_{kind.name}_S", f"MOSTLY_{kind.name}_MOE", f"ALL_{kind.name}")
    known = gguf.LlamaFileType.__members__
    return next(known[name] for name in names if name in known)


def _write_vocabulary(gguf, writer, size: int) -> None:
    """A sentencepiece vocabulary that tokenises any text: bytes, then words ``w0``, ``w1``, …"""
    kinds = gguf.TokenType
    words = [f"\u2581w{n}" for n in range(size - _SPECIAL)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words])
    writer.add_token_scores([-float(n) for n in range(size)])
    writer.add_token_types([int(kinds.UNKNOWN), *[int(kinds.CONTROL)] * 2, *[int(kinds.BYTE)] * 256,
                            *[int(kinds.NORMAL)] * len(words)])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)


def _write_tensor(gguf, out, size: tuple[int, ...], kind, seed: int) -> None:
    """Tensor at the next aligned place, tile by tile."""
    out.write(bytes(-out.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))
    if len(size) == 1:
        out.write(np.ones(size, np.float32).tobytes())
    else:
        rows = int(np.prod(size[:-1]))
        tile = _tile(gguf, rows, size[-1], kind, seed)
        whole, rest = divmod(rows, len(tile))
        for _ in range(whole):
            out.write(tile.data)
        out.write(tile[:rest].data)
    out.write(bytes(-out.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))


_TILES: dict[tuple, np.ndarray] = {}
"""The last tiles made; layers repeat a few sizes."""


def _tile(gguf, rows: int, columns: int, kind, seed: int) -> np.ndarray:
    """Random rows in a format, [row, byte], scaled so that a product keeps the size of its input."""
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    row_bytes = columns // block * block_bytes
    tall = max(1, min(rows, TILE_BYTES // row_bytes))
    key = (tall, columns, kind, seed)
    if key not in _TILES:
        if len(_TILES) > 8:
            _TILES.clear()
        _TILES[key] = _random(gguf, tall, columns, kind, np.random.default_rng(seed)).reshape(tall, row_bytes)
    return _TILES[key]


def _random(gguf, rows: int, columns: int, kind, rng) -> np.ndarray:
    wanted, name = columns**-0.5, kind.name
    if name in ("F32", "F16", "BF16"):
        values = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(wanted)
        if name == "BF16":
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.astype(np.float32 if name == "F32" else np.float16).view(np.uint8)
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(rng.bytes(rows * columns // block * block_bytes), np.uint8).reshape(-1, block_bytes).copy()
    _set_scale(blocks, name, 1.0)
    sample = gguf.quants.dequantize(blocks[:256].reshape(-1), kind)
    _set_scale(blocks, name, wanted / float(sample.std()))
    return blocks


def _set_scale(blocks: np.ndarray, name: str, scale: float) -> None:
    if name == "MXFP4":
        blocks[:, 0] = 127 + round(np.log2(scale))
        return
    if name in _SCALES:
        places = {offset: scale for offset in _SCALES[name]}
    else:
        at, offset_at, offset_per_scale = _SCALES_AND_OFFSETS[name]
        places = {at: scale, offset_at: scale * offset_per_scale}
    for at, value in places.items():
        blocks[:, at:at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)


_GELU = {"bloom", "falcon", "gemma", "gemma2", "gemma3", "gemma3n", "gpt2", "gptj", "gptneox", "grok", "mpt", "phi2",
         "starcoder", "starcoder2"}
"""Architectures whose gate is a GELU; of the others it is taken for a SiLU (llama.cpp ``src/models``, ``LLM_FFN_GELU``)."""


def description(path: str | os.PathLike) -> dict[str, Any]:
    """
    What a call's cost depends on: sizes of a ``.gguf`` and its matrices, as plain data.

    ``norm_channels`` and ``gate_channels`` are those that a layer normalises and gates of each token.
    """
    table = read_table(path)
    stored, found = table.keys, _matrices(table)
    family = stored.get("general.architecture", "")

    def size(name: str):
        value = stored.get(f"{family}.{name}")  # a list says it layer by layer
        return sum(value) / len(value) if isinstance(value, list) and value else value

    heads, layers, used = size("attention.head_count"), size("block_count"), size("expert_used_count")
    kv_heads, gate = size("attention.head_count_kv") or heads, size("feed_forward_length")
    if used:
        gate = (size("expert_feed_forward_length") or gate or 0) * used + (size("expert_shared_feed_forward_length") or 0)
    repeated = {"attn_q_norm": heads, "attn_k_norm": kv_heads}
    norms = [t.size[0] * repeated.get(t.name.split(".")[-2], 1) for t in table.tensors
             if t.name.startswith("blk.") and t.name.endswith("norm.weight") and len(t.size) == 1]
    output = next((m for m in found if m.place == "output"), None)
    return {
        "architecture": family,
        "layers": layers,
        "width": size("embedding_length"),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": size("attention.key_length") or (size("embedding_length") // heads if heads else None),
        "vocabulary": output.rows if output else None,
        "experts": size("expert_count"),
        "experts_used": used,
        "norm_channels": sum(norms) / layers if layers else None,
        "gate_channels": gate,
        "activation": "gelu" if family in _GELU else "silu",
        "matrices": [list(m) for m in found],
    }

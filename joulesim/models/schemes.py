"""Quantisation schemes of checkpoints, one reader a ``quant_method``: which modules, in which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from joulesim.errors import Fault, InputError
from joulesim.models.fields import short
from joulesim.models.patterns import PREFIX, Test, matching

ALGORITHMS = {
    "FP8": "fp8_e4m3",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8_e4m3",
    "FP8_PB_WO": "fp8_block128",
    "FP8_PB_REAL": "fp8_block128",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "MXFP4": "mxfp4",
    "MXFP8": "mxfp8",
    "W4A16_AWQ": "int4_g128",
    "W4A8_AWQ": "int4_g128",
    "INT4_AWQ": "int4_g128",
    "W8A16": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "INT8_SQ": "int8",
    "INT8": "int8",
}
"""Format of an algorithm of NVIDIA modelopt."""
QUANTISED_ROLES = ("attention", "recurrent", "dense_ffn", "shared_expert", "routed_expert")
_MOST_PATTERNS = 200_000


class Scheme(NamedTuple):
    """Formats of a checkpoint's matrices."""

    format: str
    """Format of the projections that nothing else names."""
    excluded: Test
    named: Callable[[str], str | None]
    """Format of a matrix that the scheme lists by name."""
    roles: tuple[str, ...] = QUANTISED_ROLES
    notes: tuple[str, ...] = ()


def read_scheme(block: Mapping[str, Any], text: Mapping[str, Any], where: str) -> Scheme | None:
    method = block.get("quant_method") or ("modelopt" if block.get("quant_algo") else None)
    if method is None and block.get("config_groups"):
        method = "compressed-tensors"
    if method is None:
        return None
    reader = METHODS.get(method) if isinstance(method, str) else None
    if reader is None:
        raise InputError(
            Fault(
                f"{where}: quantization_config.quant_method",
                f"expected {', '.join(METHODS)}, got {short(method)}",
                "this scheme is not modelled",
            )
        )
    excluded = [
        *_names(block, "modules_to_not_convert", where),
        *_names(block, "ignore", where),
        *_names(block, "exclude_modules", where),
        *_names(block, "ignored_layers", where),
        *_names(block, "llm_int8_skip_modules", where),
    ]
    return reader(block, text, matching(excluded, where), where)


def _names(block: Mapping[str, Any], field: str, where: str) -> list[str]:
    given = block.get(field)
    if given is None:
        return []
    if not isinstance(given, list) or len(given) > _MOST_PATTERNS or not all(isinstance(name, str) for name in given):
        raise InputError(Fault(f"{where}: {field}", f"expected a list of module names, got {short(given)}"))
    return given


def _nothing(module: str) -> None:
    return None


def _fp8(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    size = block.get("weight_block_size")
    if size not in (None, [128, 128]):
        raise InputError(
            Fault(
                f"{where}: weight_block_size",
                f"expected [128, 128], got {short(size)}",
                "this block is not modelled",
            )
        )
    format = "fp8_block128" if size else "fp8_e4m3"
    if block.get("quant_algo") == "MIXED_PRECISION":
        listed = _listed(block, where)
        note = f"modules that modelopt does not list stay as the original checkpoint has them: {format}"
        return Scheme(format, lambda module: False, listed, notes=(note,))
    if text.get("expert_dtype") == "fp4":
        note = "routed experts are stored in 4 bit (expert_dtype fp4): read as MXFP4, one scale for 32 weights"
        return Scheme(format, excluded, lambda module: "mxfp4" if ".experts." in module else None, notes=(note,))
    return Scheme(format, excluded, _nothing)


def _modelopt(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    algorithm = block.get("quant_algo")
    if algorithm == "MIXED_PRECISION":
        return Scheme("bf16", lambda module: True, _listed(block, where))
    note = (
        ()
        if any(block.get(name) for name in ("ignore", "exclude_modules"))
        else ("no module is excluded from quantisation: embeddings, output and router are read as 16 bit all the same",)
    )
    return Scheme(_algorithm(algorithm, where), excluded, _nothing, notes=note)


def _algorithm(given: Any, where: str) -> str:
    if not isinstance(given, str) or given not in ALGORITHMS:
        raise InputError(
            Fault(
                f"{where}: quant_algo",
                f"expected {', '.join(ALGORITHMS)} or MIXED_PRECISION, got {short(given)}",
                "this scheme is not modelled",
            )
        )
    return ALGORITHMS[given]


def _listed(block: Mapping, where: str) -> Callable[[str], str | None]:
    """Format of a module by ``quantized_layers``, which lists modules or whole parts of layers."""
    given = block.get("quantized_layers")
    if not isinstance(given, Mapping) or not all(isinstance(item, Mapping) for item in given.values()):
        raise InputError(Fault(f"{where}: quantized_layers", f"expected modules with a quant_algo, got {short(given)}"))
    formats = {PREFIX.sub("", str(name)): _algorithm(item.get("quant_algo"), where) for name, item in given.items()}

    def named(module: str) -> str | None:
        steps = module.split(".")
        return next(
            (formats[name] for i in range(len(steps), 0, -1) if (name := ".".join(steps[:i])) in formats),
            None,
        )

    return named


def _mxfp4(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    return Scheme("mxfp4", excluded, _nothing)


def _integers(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    """GPTQ and AWQ: whole numbers with a scale and a zero point per group."""
    bits = block.get("bits", block.get("w_bit", 4))
    return Scheme(
        _group_format(bits, block.get("group_size", block.get("q_group_size", 128)), where),
        excluded,
        _nothing,
    )


def _group_format(bits: Any, group: Any, where: str) -> str:
    found = {(4, 32): "int4_g32", (4, 64): "int4_g64", (4, 128): "int4_g128"}.get(
        (bits, group) if isinstance(group, int) else ()
    )
    if bits == 8:
        return "int8"
    if found is None:
        raise InputError(
            Fault(
                f"{where}: quantization_config",
                f"expected 4 bits in groups of 32, 64 or 128, or 8 bits, got {short(bits)}"
                f" bits in groups of {short(group)}",
                "this layout is not modelled",
            )
        )
    return found


def _bitsandbytes(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    if block.get("load_in_8bit") or block.get("_load_in_8bit"):
        return Scheme("int8", excluded, _nothing)
    double = block.get("bnb_4bit_use_double_quant")
    return Scheme("nf4_double" if double else "nf4", excluded, _nothing)


def _compressed_tensors(block: Mapping, text: Mapping, excluded: Test, where: str) -> Scheme:
    groups = block.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(Fault(f"{where}: config_groups", f"expected groups with their weights, got {short(groups)}"))
    general, special = None, []
    for group in groups.values():
        if not isinstance(group, Mapping):
            raise InputError(
                Fault(f"{where}: config_groups", f"expected groups with their weights, got {short(group)}")
            )
        weights, targets = group.get("weights"), _names(group, "targets", where) or ["Linear"]
        format = _weights_format(weights, where)
        if "Linear" in targets:
            general = format
        else:
            special.append((matching(targets, where), format))

    def named(module: str) -> str | None:
        return next((format for matches, format in special if matches(module) and not excluded(module)), None)

    return Scheme(general or "bf16", excluded if general else lambda module: True, named)


def _weights_format(weights: Any, where: str) -> str:
    if not isinstance(weights, Mapping):
        raise InputError(Fault(f"{where}: config_groups", f"expected the weights of a group, got {short(weights)}"))
    kind, bits, group = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    if kind == "int":
        return _group_format(bits, group, where)
    block = weights.get("block_structure")
    if (kind, bits) == ("float", 8) and block in (None, [128, 128], "128x128"):
        return "fp8_block128" if block else "fp8_e4m3"
    found = {("float", 4, 16): "nvfp4", ("float", 4, 32): "mxfp4"}.get(
        (kind, bits, group) if isinstance(group, int) else ()
    )
    if found is None:
        raise InputError(
            Fault(
                f"{where}: config_groups",
                f"expected a weight layout that joulesim knows, got {short(weights)}",
            )
        )
    return found


METHODS: dict[str, Callable[[Mapping, Mapping, Test, str], Scheme]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
    "gptq": _integers,
    "awq": _integers,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
}
"""Reader of each ``quant_method``."""

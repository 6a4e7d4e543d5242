"""
Hugging Face transformers on PyTorch: one forward pass is the unit, on a CUDA device or on the CPU.

The only module that imports ``torch`` and ``transformers``, and only once an engine is made. Nothing is downloaded: a
model is a ``.json`` of sizes, whose weights are drawn at random, or a folder with a ``config.json`` and
``.safetensors``.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from joulesim.measure.runtimes.base import Call, Runtime, Settings, repeat
from joulesim.measure.runtimes.decoding import answer

FORMATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
"""Format of weights and cache -> ``torch.dtype``."""
_BITS = {"f32": 32, "f16": 16, "bf16": 16}
_SEED_TOKENS = 256
"""Tokens that are really prefilled; a deeper cache repeats their entries."""
_GROWING = {"DynamicLayer", "DynamicSlidingWindowLayer"}
"""Layers of a cache that make their tensors anew at each call, so that the old ones can be put back."""
_ONE_PASS = 2**31 - 1
"""One pass over the weights serves a call of any size."""
_BEGIN, _END, _BYTES, _WORDS = 1, 2, 3, 259
"""Tokens of a synthetic vocabulary: begin, end, first byte, first word (as in :mod:`joulesim.measure.synth`)."""


def check(model: str, weights: str, settings: Settings) -> None:
    """Refuse what this engine cannot do, in one line."""
    if weights not in FORMATS:
        raise ValueError(f"{model}: expected weights in {', '.join(FORMATS)}, got {weights!r}; "
                         "llama.cpp runs the formats of a .gguf (--runtime llama_cpp)")
    for field, kind in (("kv_format", settings.kv_format), ("v_format", settings.v_format or settings.kv_format)):
        if _BITS.get(kind) != _BITS[weights]:
            raise ValueError(f"{field}: expected the format of the weights, {weights}, got {kind!r}")
    if settings.gpu_layers not in (0, -1):
        raise ValueError(f"gpu_layers: expected -1 (all on the GPU) or 0 (CPU), got {settings.gpu_layers}")
    if settings.flash_attention:
        raise ValueError("flash_attention: expected nothing (PyTorch chooses) or false (written out), got true")


def config_of(folder: str) -> dict[str, Any]:
    """``config.json`` of a folder that can be opened; anything else is refused in one line."""
    path = Path(folder)
    if not path.is_dir():
        what = "a .gguf; llama.cpp opens it (--runtime llama_cpp)" if path.suffix == ".gguf" else "no folder"
        raise ValueError(f"{folder}: expected a folder with config.json and .safetensors, got {what}")
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        what = "expected config.json and .safetensors in it; weights that are pickled are not opened"
        raise ValueError(f"{folder}: {what}")
    config = json.loads((path / "config.json").read_text())
    if "quantization_config" in config:
        method = config["quantization_config"].get("quant_method", "an unnamed method")
        raise ValueError(f"{folder}: expected weights in {', '.join(FORMATS)}, got ones quantised by {method}")
    return config


class Model:
    """Weights in memory, with their vocabulary."""

    def __init__(self, path: str, settings: Settings):
        import torch
        import transformers

        self.device = "cpu" if settings.gpu_layers == 0 else "cuda"
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"torch {torch.__version__} sees no CUDA device; --gpu-layers 0 runs on the CPU")
        self._tokeniser = None
        attention = "sdpa" if settings.flash_attention is None else "eager"
        if path.endswith(".json"):
            self.module = _random(json.loads(Path(path).read_text()), settings, self.device, attention)
            self._ends = {_END}
        else:
            self.module = _stored(path, settings, attention)
            if (Path(path) / "tokenizer_config.json").is_file():
                self._tokeniser = transformers.AutoTokenizer.from_pretrained(
                    path, local_files_only=True, trust_remote_code=False)
            ends = self.module.generation_config.eos_token_id
            self._ends = set(ends if isinstance(ends, list) else [ends]) - {None}
        self.module = self.module.to(self.device).eval()
        self.synthetic = path.endswith(".json")
        self.path, self.config = path, self.module.config.get_text_config()
        self.n_vocabulary = self.config.vocab_size
        self.weights = _format_of(self.module.dtype)
        asked = inspect.signature(self.module.forward).parameters
        self.cache_name = "cache" if "cache" in asked else "past_key_values"
        """Newer versions call it ``cache``."""

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text, the start token first where the model wants one."""
        if self.synthetic:
            return [_BEGIN, *(_BYTES + byte for byte in text.encode())]
        if self._tokeniser is None:
            raise ValueError(f"{self.path}: expected a tokeniser for a prompt of text, got no tokenizer_config.json")
        return self._tokeniser(text).input_ids

    def text(self, tokens: Iterable[int]) -> str:
        """Text of tokens; bytes that are no text are replaced."""
        if self.synthetic:
            return b"".join(map(_piece, tokens)).decode(errors="replace")
        return self._tokeniser.decode(list(tokens), skip_special_tokens=True) if self._tokeniser else ""

    def ends(self, token: int) -> bool:
        """Whether a token ends the text."""
        return token in self._ends

    def wait(self) -> None:
        """Wait for the device."""
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()

    def filler(self, n: int, seed: int = 0) -> list[int]:
        """Ordinary tokens that mean nothing."""
        first = min(300, self.n_vocabulary // 2)
        return [first + (seed + 7919 * i) % (self.n_vocabulary - first) for i in range(n)]

    def description(self) -> dict[str, Any]:
        """What a call's cost depends on; see :func:`joulesim.measure.synth.description`."""
        config = self.config
        ends = {"embedding": self.module.get_input_embeddings(), "output": self.module.get_output_embeddings()}
        counts = {(place, *end.weight.shape, _format_of(end.weight.dtype)): 1 for place, end in ends.items() if end}
        for name, weight in self.module.named_parameters():
            if weight.ndim > 1 and any(part.isdigit() for part in name.split(".")):  # of a numbered layer
                key = ("layer", *weight.shape[-2:], _format_of(weight.dtype))
                counts[key] = counts.get(key, 0) + int(np.prod(weight.shape[:-2], initial=1))
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        norms = [w.numel() * (heads if "q_norm" in name else kv_heads if "k_norm" in name else 1)
                 for name, w in self.module.named_parameters()
                 if w.ndim == 1 and "norm" in name and any(part.isdigit() for part in name.split("."))]
        gate = _said(config, "moe_intermediate_size", "intermediate_size", "n_inner") or 4 * config.hidden_size  # GPT-2
        activation = _said(config, "hidden_activation", "hidden_act", "activation_function") or "silu"
        experts = _said(config, "num_local_experts", "num_experts", "n_routed_experts")
        used = config.num_experts_per_tok if experts else None
        return {
            "architecture": config.model_type, "layers": config.num_hidden_layers, "width": config.hidden_size,
            "heads": heads, "kv_heads": kv_heads,
            "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
            "vocabulary": self.n_vocabulary, "experts": experts,
            "experts_used": used,
            "norm_channels": sum(norms) / config.num_hidden_layers, "gate_channels": gate * (used or 1),
            "activation": "gelu" if "gelu" in activation else "silu",
            "matrices": [[*key, count] for key, count in counts.items()],
        }


def _said(config, *names: str) -> Any:
    """What a config says under the first of the names that it has; ``None``: under none."""
    return next((value for name in names if (value := getattr(config, name, None))), None)


def _random(sizes: dict[str, Any], settings: Settings, device: str, attention: str):
    """A model of the Llama family with random weights, made where it runs."""
    import torch
    import transformers

    check("synthetic model", sizes["weights"], settings)
    if sizes.get("experts") or sizes.get("family", "llama") != "llama":
        raise ValueError("a synthetic model is a Llama without experts here, give a folder with --model NAME=FOLDER")
    config = transformers.LlamaConfig(
        hidden_size=sizes["width"], num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"], head_dim=sizes["head_channels"], intermediate_size=sizes["ffn"],
        vocab_size=sizes["vocabulary"], tie_word_embeddings=sizes["tied"], max_position_embeddings=sizes["context"],
        initializer_range=sizes["width"]**-0.5, bos_token_id=_BEGIN, eos_token_id=_END)
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, FORMATS[sizes["weights"]]), attn_implementation=attention)


def _stored(folder: str, settings: Settings, attention: str):
    """A model from a folder, in the format in which it is stored."""
    import transformers

    config_of(folder)
    try:
        module = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", attn_implementation=attention, local_files_only=True, trust_remote_code=False,
            use_safetensors=True)
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        raise RuntimeError(f"{folder} does not load: {type(error).__name__}: {said}") from None
    check(folder, _format_of(module.dtype), settings)
    return module


def _format_of(kind) -> str:
    name = str(kind).removeprefix("torch.")
    return next((key for key, value in FORMATS.items() if value == name), name)


def _piece(token: int) -> bytes:
    """Bytes of a token of a synthetic vocabulary."""
    if token >= _WORDS:
        return f" w{token - _WORDS}".encode()
    return bytes([token - _BYTES]) if token >= _BYTES else b""


class Context:
    """A cache of several sequences of one depth, and calls on it."""

    def __init__(self, model: Model, sequences: int = 1, rolling: bool = True):
        """``rolling``: windowed layers keep their window alone, so that the cache cannot be cut."""
        self.model, self.sequences, self.held = model, sequences, 0
        self._rolling, self._cache, self._logits = rolling, None, None
        self._tokens, self._every, self._start = None, False, []
        self.cut(0)

    def feed(self, tokens: Sequence[int], start: int = 0, every: bool = False) -> None:
        """Put tokens at a position of a single sequence; logits of the last, or of ``every`` one, are there then."""
        self.cut(start)
        self._pass(self._on_device(tokens), every)
        self.held = start + len(tokens)

    def logits(self, row: int = -1) -> np.ndarray:
        """Logits of a row of the last call."""
        return self._logits[0, row].float().cpu().numpy()

    def cut(self, length: int) -> None:
        """Keep only the first ``length`` tokens."""
        if not length:
            self._cache = self._empty()
        elif length < self.held:
            self._cache.crop(length - self.held)  # below zero: how many go, which every version understands
        self.held = min(self.held, length)

    def fill(self, depth: int) -> None:
        """Bring every sequence to ``depth`` tokens, a deep one by repeating entries; calls start there from now on."""
        import torch

        self._cache = self._empty()
        if others := {type(layer).__name__ for layer in self._cache.layers} - _GROWING:
            raise RuntimeError(f"{self.model.config.model_type}: expected keys and values in every layer's cache, got "
                               f"{', '.join(sorted(others))}")
        if depth:
            self._pass(self._on_device(self.model.filler(min(depth, _SEED_TOKENS))), False)
            seed, self._cache = self._cache, self._empty()
            for number, layer in enumerate(seed.layers):
                at = torch.arange(depth, device=layer.keys.device) % layer.keys.shape[-2]
                size = (self.sequences, -1, -1, -1)
                keys, values = (stored[:, :, at].expand(size) for stored in (layer.keys, layer.values))
                self._cache.update(keys, values, number)
        if (found := self._cache.get_seq_length()) != depth:
            raise RuntimeError(f"expected {depth} cached tokens in each sequence, got {found}")
        self._start = [dict(vars(layer)) for layer in self._cache.layers]

    def load(self, call: Call) -> None:
        """Say what the next calls hold."""
        self._tokens = self._on_device(self.model.filler(call.rows, call.depth), call.sequences)
        self._every = call.phase == "chunk"

    def call(self) -> None:
        """Make the call that was loaded, and wait for it."""
        self._pass(self._tokens, self._every)
        self.model.wait()

    def back(self) -> None:
        """Forget the call: each one makes its tensors anew, and the filled ones are still there."""
        for layer, start in zip(self._cache.layers, self._start, strict=True):
            vars(layer).update(start)

    def _pass(self, tokens, every: bool) -> None:
        import torch

        with torch.inference_mode():
            self._logits = self.model.module(input_ids=tokens, use_cache=True, logits_to_keep=0 if every else 1,
                                             **{self.model.cache_name: self._cache}).logits

    def _on_device(self, tokens: Sequence[int], sequences: int = 1):
        import torch

        return torch.tensor(tokens, device=self.model.device).reshape(sequences, -1)

    def _empty(self):
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config) if self._rolling else DynamicCache()


class Engine(Runtime):
    """transformers, pass by pass."""

    REQUESTS = (*Runtime.REQUESTS, "describe")

    def __init__(self):
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
        import torch
        import transformers

        self._torch, self._versions = torch, f"transformers {transformers.__version__}, torch {torch.__version__}"
        self._model: Model | None = None
        self._draft: Model | None = None
        self._context: Context | None = None
        self._talk: Context | None = None
        """Cache of answers, kept for the prefix that the next prompt may share."""
        self._settings = Settings()
        self._held: list[int] = []

    def facts(self) -> dict[str, Any]:
        return {
            "phases": self.phases,
            "formats": [[weights, cache] for weights in FORMATS for cache in FORMATS if _BITS[weights] == _BITS[cache]],
            "describes": True,
            "name": "transformers",
            "version": self._versions,
            "build": self._build(),
            "backend": "gpu" if self._torch.cuda.is_available() else "cpu",
        }

    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        self.close()
        self._settings = Settings(**settings)
        self._torch.set_num_threads(self._settings.threads)
        began = time.perf_counter()
        self._model = Model(model, self._settings)
        self._model.wait()
        on_gpu = self._model.device == "cuda"
        facts = self.facts()
        return {
            **{key: facts[key] for key in ("name", "version", "build")},
            "backend": "gpu" if on_gpu else "cpu",
            "threads": self._settings.threads,
            "settings": {
                "kv_format": self._model.weights, "microbatch": _ONE_PASS, "gpu_layers": self._settings.gpu_layers,
                "flash_attention": self._settings.flash_attention, "compiled": False,
                "attention": self._model.config._attn_implementation,
                "device": self._torch.cuda.get_device_name() if on_gpu else "",
                "load_time": round(time.perf_counter() - began, 3),
            },
        }

    def describe(self) -> dict[str, Any]:
        """The open model as it is in memory."""
        return self._opened().description()

    def prepare(self, call: dict[str, Any]) -> dict[str, Any]:
        wanted, model = Call(**call), self._opened()
        self._context = self._talk = None
        self._held = []
        if model.device == "cuda":
            self._torch.cuda.empty_cache()
        context = Context(model, wanted.sequences)
        context.fill(wanted.depth)
        context.load(wanted)
        model.wait()
        began = time.perf_counter()
        context.call()
        first = time.perf_counter() - began
        context.back()
        self._context = context
        return {"first": first}

    def run(self, call: dict[str, Any], clock: str, at_least: float, at_most: float, repeats: int) -> dict[str, Any]:
        context = self._context
        if context is None:
            raise ValueError("expected a prepared call; ask to prepare it first")
        return repeat(context.call, context.back, clock, at_least, at_most, repeats)._asdict()

    def generate(self, prompts: list[Any], max_tokens: int, **options: Any) -> list[dict[str, Any]]:
        draft_path, draft, found = options.pop("draft_model", None), None, []
        if self._talk is None:
            self._talk, self._held = Context(self._opened(), rolling=False), []
        if draft_path:
            if self._draft is None or self._draft.path != draft_path:
                self._draft = Model(draft_path, self._settings)
            draft = Context(self._draft, rolling=False)
        for prompt in prompts:
            one, self._held = answer(self._talk, prompt, max_tokens, self._held, draft=draft, **options)
            found.append(one.model_dump())
        return found

    def parity(self, prompts: list[Any], output_tokens: int, blocks: list[int]) -> dict[str, Any]:
        from joulesim.measure.parity import compare

        model, self._talk = self._opened(), None
        tokens = [model.tokens(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        return compare(Context(model, rolling=False), tokens, output_tokens, blocks).model_dump()

    def close(self) -> None:
        self._context = self._talk = self._draft = self._model = None
        self._held = []

    def _opened(self) -> Model:
        if self._model is None:
            raise ValueError("expected an open model; ask to open one first")
        return self._model

    def _build(self) -> str:
        """Versions of what is below PyTorch, as far as they are known."""
        version, driver = self._torch.version, ""
        if (told := Path("/proc/driver/nvidia/version")).is_file():
            driver = re.search(r"\d+\.\d+(\.\d+)?", told.read_text())
        parts = {"CUDA": version.cuda, "ROCm": getattr(version, "hip", None), "driver": driver and driver[0]}
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value)

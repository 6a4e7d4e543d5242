"""
llama.cpp through llama-cpp-python's low-level bindings: one ``llama_decode`` call is the unit.

The only module that imports ``llama_cpp``. It runs inside a worker, because a failed GGML_ASSERT ends the process.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Sequence
from typing import Any

import llama_cpp as engine
import numpy as np

from joulesim.measure.runtimes import kv_state
from joulesim.measure.runtimes.base import Call, Runtime, Settings, repeat
from joulesim.measure.runtimes.decoding import answer

_CACHE_FORMATS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
"""Cache format -> ``ggml_type``."""
_FILE_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 11,
    "q3_k_m": 12, "q4_k": 14, "q4_k_s": 14, "q4_k_m": 15, "q5_k": 16, "q5_k_m": 17, "q6_k": 18,
    "iq4_nl": 25, "iq4_xs": 30, "bf16": 32,
}
"""Weight format -> ``llama_ftype``."""
_SEED_TOKENS = 16
"""Tokens that are really computed, once a model; a deeper cache repeats their entries."""
_WARMING = 4
"""Tokens of the call that is made and thrown away; longer ones would measure nothing and cost as much as a repeat."""
_WARNING = 3

_said: list[str] = []


@engine.llama_log_callback
def _log(level, text, _):
    if level >= _WARNING:
        _said.append(text.decode(errors="replace").strip())
        del _said[:-20]


def _failed(what: str) -> RuntimeError:
    return RuntimeError(f"{what}: {' '.join(_said[-3:]) or 'llama.cpp gave no reason'}")


class Model:
    """Weights in memory, with their vocabulary."""

    def __init__(self, path: str, gpu_layers: int = 0, repack: bool = True):
        parameters = engine.llama_model_default_params()
        parameters.n_gpu_layers = 2**31 - 1 if gpu_layers < 0 else gpu_layers
        parameters.use_extra_bufts = repack
        self.handle = engine.llama_model_load_from_file(str(path).encode(), parameters)
        if not self.handle:
            raise _failed(f"{path} does not load")
        self.seed: bytes | None = None
        """Saved cache of a few tokens, which contexts are filled from; all contexts of a model share one cache format."""
        self.vocabulary = engine.llama_model_get_vocab(self.handle)
        self.n_vocabulary = engine.llama_vocab_n_tokens(self.vocabulary)

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text, the start token first where the model wants one."""
        data = text.encode()
        room = len(data) + 8
        found = (engine.llama_token * room)()
        n = engine.llama_tokenize(self.vocabulary, data, len(data), found, room, True, True)
        if n < 0:
            raise RuntimeError(f"expected at most {room} tokens, got {-n}")
        return list(found[:n])

    def text(self, tokens: Iterable[int]) -> str:
        """Text of tokens; bytes that are no text are replaced."""
        buffer, parts = ctypes.create_string_buffer(256), []
        for token in tokens:
            n = engine.llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, False)
            parts.append(buffer.raw[:max(n, 0)])
        return b"".join(parts).decode(errors="replace")

    def ends(self, token: int) -> bool:
        """Whether a token ends the text."""
        return bool(engine.llama_vocab_is_eog(self.vocabulary, token))

    def filler(self, n: int, seed: int = 0) -> list[int]:
        """Ordinary tokens that mean nothing."""
        first = min(300, self.n_vocabulary // 2)
        return [first + (seed + 7919 * i) % (self.n_vocabulary - first) for i in range(n)]

    def close(self) -> None:
        if self.handle:
            engine.llama_model_free(self.handle)
            self.handle = None


class Context:
    """A cache of several sequences, and calls on it."""

    def __init__(self, model: Model, settings: Settings, sequences: int, capacity: int):
        parameters = engine.llama_context_default_params()
        parameters.n_ctx = sequences * capacity
        parameters.n_seq_max = sequences
        parameters.n_batch = max(settings.microbatch, 2048, sequences)
        parameters.n_ubatch = settings.microbatch
        parameters.n_threads = parameters.n_threads_batch = settings.threads
        parameters.type_k = _cache_format(settings.kv_format)
        parameters.type_v = _cache_format(settings.v_format or settings.kv_format)
        if settings.flash_attention is not None:
            parameters.flash_attn_type = int(settings.flash_attention)
        parameters.kv_unified = False
        parameters.swa_full = True
        parameters.no_perf = True
        self.handle = engine.llama_init_from_model(model.handle, parameters)
        if not self.handle:
            raise _failed(f"no context of {sequences} x {capacity} tokens")
        self.model, self.settings, self.sequences, self.capacity = model, settings, sequences, capacity
        self.largest = parameters.n_batch
        self.filled = 0
        """Tokens in every sequence that a shallower call can be made on again."""
        self.memory = engine.llama_get_memory(self.handle)
        self.batch = engine.llama_batch_init(self.largest, 0, 1)

    def load(
        self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int], outputs: Sequence[bool]
    ) -> None:
        """Say what the next calls hold."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        rows = zip(tokens, positions, sequences, outputs, strict=True)
        for i, (token, position, sequence, output) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, output
            batch.seq_id[i][0] = sequence

    def call(self) -> None:
        """Make the call that was loaded, and wait for it."""
        status = engine.llama_decode(self.handle, self.batch)
        if status:
            raise _failed(f"llama_decode gave {status}")
        engine.llama_synchronize(self.handle)

    def feed(self, tokens: Sequence[int], start: int = 0, every: bool = False, sequence: int = 0) -> None:
        """Put tokens behind what a sequence holds; logits of the last, or of ``every`` one, are there afterwards."""
        for at in range(0, len(tokens), self.largest):
            part = tokens[at:at + self.largest]
            last = at + len(part) == len(tokens)
            outputs = [every or (last and i == len(part) - 1) for i in range(len(part))]
            self.load(part, range(start + at, start + at + len(part)), [sequence] * len(part), outputs)
            self.call()

    def logits(self, row: int = -1) -> np.ndarray:
        """Logits of a row of the last call; valid until the next."""
        return np.ctypeslib.as_array(engine.llama_get_logits_ith(self.handle, row), (self.model.n_vocabulary,))

    def cut(self, length: int, sequence: int = 0) -> None:
        """Keep only the first ``length`` tokens of a sequence."""
        self.filled = min(self.filled, length)
        if not engine.llama_memory_seq_rm(self.memory, sequence, length, -1):
            raise RuntimeError(f"the cache cannot be cut at {length} tokens")

    def clear(self) -> None:
        """Forget everything."""
        self.filled = 0
        engine.llama_memory_clear(self.memory, False)

    def fill(self, depth: int) -> None:
        """Bring every sequence to ``depth`` tokens; what an earlier call of this depth or a greater one left is cut to it."""
        if 0 < depth <= self.filled:
            for sequence in range(self.sequences):
                self.cut(depth, sequence)
            return
        self.clear()
        if not depth:
            return
        if depth <= _SEED_TOKENS or not self._tile(depth):
            self.clear()
            self.feed(self.model.filler(depth))
        for sequence in range(1, self.sequences):
            engine.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        held = [engine.llama_memory_seq_pos_max(self.memory, s) + 1 for s in range(self.sequences)]
        if held != [depth] * self.sequences:
            raise RuntimeError(f"expected {depth} cached tokens in each sequence, got {held}")
        self.filled = depth

    def state(self) -> bytes:
        """What sequence 0 holds, in llama.cpp's own layout."""
        size = engine.llama_state_seq_get_size(self.handle, 0)
        data = (ctypes.c_uint8 * size)()
        engine.llama_state_seq_get_data(self.handle, data, size, 0)
        return bytes(data)

    def _tile(self, depth: int) -> bool:
        """Fill sequence 0 by repeating a seed's entries: time depends on how many there are, not on what they say."""
        if self.model.seed is None:
            only = Context(self.model, self.settings, 1, _SEED_TOKENS)
            only.feed(self.model.filler(_SEED_TOKENS))
            self.model.seed = only.state()
            only.close()
        longer = kv_state.repeated(self.model.seed, depth, self.sequences)
        if longer is None:
            return False
        data = (ctypes.c_uint8 * len(longer)).from_buffer(longer)
        taken = engine.llama_state_seq_set_data(self.handle, data, len(longer), 0)
        return taken == len(longer) and engine.llama_memory_seq_pos_max(self.memory, 0) == depth - 1

    def close(self) -> None:
        if self.handle:
            engine.llama_batch_free(self.batch)
            engine.llama_free(self.handle)
            self.handle = None


def _cache_format(name: str) -> int:
    if name not in _CACHE_FORMATS:
        raise ValueError(f"kv_format: expected one of {', '.join(_CACHE_FORMATS)}, got {name!r}")
    return _CACHE_FORMATS[name]


class Engine(Runtime):
    """llama.cpp, call by call."""

    REQUESTS = (*Runtime.REQUESTS, "requantise")

    def __init__(self):
        engine.llama_log_set(_log, ctypes.c_void_p(0))
        engine.llama_backend_init()
        self._model: Model | None = None
        self._draft: Model | None = None
        self._context: Context | None = None
        self._settings = Settings()
        self._held: list[int] = []
        """What the cache holds between answers."""

    def facts(self) -> dict[str, Any]:
        return {
            "phases": self.phases,
            "name": "llama.cpp",
            "version": f"llama-cpp-python {engine.__version__}",
            "build": engine.llama_print_system_info().decode(errors="replace").strip(),
            "backend": "gpu" if engine.llama_supports_gpu_offload() else "cpu",
        }

    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        self.close()
        self._settings = Settings(**settings)
        began = time.perf_counter()
        self._model = Model(model, self._settings.gpu_layers, self._settings.repack)
        facts = self.facts()
        return {
            **{key: facts[key] for key in ("name", "version", "build", "backend")},
            "threads": self._settings.threads,
            "settings": {**self._settings.model_dump(exclude={"threads", "address", "model_name"}),
                         "load_time": round(time.perf_counter() - began, 3)},
        }

    def prepare(self, call: dict[str, Any]) -> dict[str, Any]:
        wanted, self._held = Call(**call), []
        capacity = -(-(wanted.depth + wanted.tokens + 1) // 256) * 256
        context = self._room(wanted.sequences, capacity)
        context.fill(wanted.depth)
        few = wanted.model_copy(update={"tokens": min(wanted.tokens, _WARMING)})
        began = time.perf_counter()
        self._once(context, few)
        context.call()
        first = time.perf_counter() - began
        self._cut(context, few)
        return {"first": first}

    def run(self, call: dict[str, Any], clock: str, at_least: float, at_most: float, repeats: int) -> dict[str, Any]:
        wanted, context = Call(**call), self._context
        self._once(context, wanted)
        if wanted.rows <= context.largest:
            once = context.call
        else:
            tokens = self._model.filler(wanted.tokens, wanted.depth)

            def once():
                context.feed(tokens, wanted.depth)

        return repeat(once, lambda: self._cut(context, wanted), clock, at_least, at_most, repeats)._asdict()

    def generate(self, prompts: list[Any], max_tokens: int, **options: Any) -> list[dict[str, Any]]:
        draft_path = options.pop("draft_model", None)
        longest = max(len(self._model.tokens(p)) if isinstance(p, str) else len(p) for p in prompts)
        capacity = -(-(longest + max_tokens + 32) // 256) * 256
        held = self._context  # a roomy context stays, and with it the prefix that the next prompt may share
        if held and held.sequences == 1:
            capacity = max(capacity, held.capacity)
        context, draft = self._room(1, capacity), None
        if draft_path:
            self._draft = self._draft or Model(draft_path, self._settings.gpu_layers, self._settings.repack)
            draft = Context(self._draft, self._settings, 1, capacity)
        try:
            if context is not held:
                self._held = []
            found = []
            for prompt in prompts:
                one, self._held = answer(context, prompt, max_tokens, self._held, draft=draft, **options)
                found.append(one.model_dump())
            return found
        finally:
            if draft:
                draft.close()

    def parity(self, prompts: list[Any], output_tokens: int, blocks: list[int]) -> dict[str, Any]:
        from joulesim.measure.parity import compare

        tokens, self._held = [self._model.tokens(p) if isinstance(p, str) else p for p in prompts], []
        context = self._room(1, -(-(max(map(len, tokens)) + output_tokens + 32) // 256) * 256)
        return compare(context, tokens, output_tokens, blocks).model_dump()

    def requantise(
        self, source: str, target: str, weights: str, pure: bool = False, threads: int = 1
    ) -> dict[str, Any]:
        """Write a model in another format."""
        parameters = engine.llama_model_quantize_default_params()
        parameters.ftype = _FILE_TYPES[weights]
        parameters.pure, parameters.nthread, parameters.allow_requantize = pure, threads, True
        if engine.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)):
            raise _failed(f"{source} cannot be written as {weights}")
        return {}

    def close(self) -> None:
        for held in (self._context, self._draft, self._model):
            if held:
                held.close()
        self._context = self._draft = self._model = None
        self._held = []

    def _room(self, sequences: int, capacity: int) -> Context:
        """A context of that many sequences, each with exactly this room, so that no call pays for another's depth."""
        if self._model is None:
            raise ValueError("expected an open model; ask to open one first")
        held = self._context
        if held is None or (held.sequences, held.capacity) != (sequences, capacity):
            if held:
                held.close()
            self._context = None
            self._context = Context(self._model, self._settings, sequences, capacity)
        return self._context

    def _once(self, context: Context, call: Call) -> None:
        """Load a call."""
        if call.rows > context.largest:
            context.feed(self._model.filler(call.tokens, call.depth), call.depth)
            self._cut(context, call)
            return
        each = [(sequence, i) for sequence in range(call.sequences) for i in range(call.tokens)]
        tokens = self._model.filler(call.rows, call.depth)
        last = call.tokens - 1
        context.load(tokens, [call.depth + i for _, i in each], [s for s, _ in each],
                     [call.phase == "chunk" or i == last for _, i in each])

    def _cut(self, context: Context, call: Call) -> None:
        if not call.depth:
            context.clear()
            return
        for sequence in range(call.sequences):
            context.cut(call.depth, sequence)

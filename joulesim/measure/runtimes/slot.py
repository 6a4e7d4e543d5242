"""One sequence on llama.cpp's server: tokens in, the likeliest next tokens out, row counts checked."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

TOP = 64
"""Tokens whose probability is asked for."""
_SILENCE = 120.0
"""[s]"""


class Slot:
    """
    A cache for :func:`joulesim.measure.parity.compare`.

    A request whose prompt goes on from the last one is one call on what is new, as long as the server kept the rest: it
    says how many rows it computed, and another number than was asked for is an error.

    Raises
    ------
    ValueError
        When nothing answers, or the server is not llama.cpp's.
    """

    def __init__(self, address: str):
        self._address = urlsplit(address if "//" in address else f"http://{address}")
        self._held: list[int] = []
        self._seen: dict[int, float] = {}
        try:
            if not self._ask("GET", "/props").get("default_generation_settings"):
                raise ValueError
            self.n_vocabulary = int(self._ask("GET", "/v1/models")["data"][0]["meta"]["n_vocab"])
        except OSError as error:
            raise ValueError(f"{address}: nothing answers there ({error.strerror or error}); start llama.cpp's server, or give "
                             "its address with --address") from None
        except (http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(f"{address}: expected llama.cpp's server, which goes on from tokens it holds and tells their "
                             "probabilities; an OpenAI-compatible server feeds no blocks (--runtime llama_cpp does)") from None

    @property
    def model(self) -> Slot:
        """Itself: the server has the vocabulary."""
        return self

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text, the start token first where the model wants one."""
        return self._ask("POST", "/tokenize", {"content": text, "add_special": True})["tokens"]

    def feed(self, tokens: Sequence[int], start: int = 0, every: bool = False) -> None:
        """Put tokens at a position and everything after it; only the last row is known afterwards."""
        self._held[start:] = tokens
        said = self._ask("POST", "/completion", {
            "prompt": self._held, "n_predict": 1, "n_probs": TOP, "temperature": 0, "cache_prompt": True, "id_slot": 0,
            "return_tokens": True})
        rows = said.get("timings", {}).get("prompt_n")
        if start and rows != len(tokens):
            raise ValueError(f"expected a call of {len(tokens)} rows, the server computed {rows}: it does not keep its cache "
                             "(a model with windowed layers needs --swa-full)")
        if likely := said.get("completion_probabilities"):
            self._seen = {one["id"]: one["logprob"] for one in likely[0]["top_logprobs"]}
        else:  # of a token that is part of a character the server tells nothing but its number
            self._seen = {token: np.nan for token in said["tokens"][:1]}

    def logits(self, row: int = -1) -> np.ndarray:
        """Log-probabilities of the last row; minus infinity beyond the likeliest :data:`TOP`, nan where untold."""
        found = np.full(self.n_vocabulary, -np.inf)
        found[list(self._seen)] = list(self._seen.values())
        return found

    def cut(self, length: int) -> None:
        """Keep only the first tokens: the server drops the rest when the last of them is asked for once more."""
        del self._held[length:]
        if length:
            self.feed(self._held[-1:], length - 1)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._address.hostname, self._address.port, timeout=_SILENCE)
        try:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise ValueError(f"{path}: HTTP {response.status}: {data[:200].decode(errors='replace').strip()}")
        return json.loads(data)

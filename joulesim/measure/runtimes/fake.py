"""
An arithmetic stand-in for an engine: it takes no time worth measuring and says so.

Dry runs and tests of campaigns use it; its records are ``modelled``, so nothing is ever fitted on them by accident. A
model named ``hang``, ``die`` or ``refuse`` does that, which is how the paths for broken engines are exercised.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from joulesim.measure.runtimes.base import Answer, Call, Runtime, looked_at


class Engine(Runtime):
    """Times from sums; see the module."""

    def __init__(self):
        self._model, self._count = "", 0
        self._sizes: dict[str, Any] = {}

    def facts(self) -> dict[str, Any]:
        return {"phases": self.phases, "name": "fake", "version": "1", "build": "", "backend": "", "modelled": True}

    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        self._model = Path(model).stem
        if "refuse" in self._model:
            raise ValueError("this model does not load")
        if Path(model).suffix == ".json":
            self._sizes = json.loads(Path(model).read_text())
        return {"name": "fake", "version": "1", "threads": settings.get("threads", 1), "settings": {}}

    def prepare(self, call: dict[str, Any]) -> dict[str, Any]:
        return {"first": self._time(Call(**call))}

    def run(self, call: dict[str, Any], clock: str, at_least: float, at_most: float, repeats: int) -> dict[str, Any]:
        if "hang" in self._model:
            time.sleep(3600)
        if "die" in self._model:
            os.abort()
        one, samples = self._time(Call(**call)), []
        for _ in range(max(repeats, 3)):
            self._count += 1
            samples.append(one * (1 + 0.002 * (self._count * 7 % 5 - 2)))
        return {"wall": samples, "cpu": samples}

    def generate(self, prompts: list[Any], max_tokens: int, **options: Any) -> list[dict[str, Any]]:
        return [Answer(text=str(prompt), prompt_tokens=len(prompt), output_tokens=min(3, max_tokens), time=0.1,
                       cpu_time=0.1, token_times=(0.05, 0.07, 0.1)[:max_tokens]).model_dump() for prompt in prompts]

    def rest(self, seconds: float) -> dict[str, Any]:
        return {}

    def _time(self, call: Call) -> float:
        s = self._sizes
        if not s:
            return 1e-3 * call.rows
        embedding = s["vocabulary"] * s["width"]
        products = (s["parameters"] - embedding) * _per_row(call.rows) + embedding * _per_row(call.outputs)
        looked = call.sequences * looked_at(call.tokens, call.depth)
        attention = 4 * s["layers"] * s["heads"] * s["head_channels"] * looked
        return 2e-5 + 1e-5 * s["layers"] + _SPEED.get(s["weights"], 3e-11) * products + 8e-11 * attention


_SPEED = {"f16": 5e-11, "q8_0": 4e-11, "q4_0": 2e-11}
"""Time a weight and row at many rows, by format. [s]"""


def _per_row(rows: int) -> float:
    """Rows, each dearer the fewer they are."""
    return rows * (1 + 2 / rows**0.7)

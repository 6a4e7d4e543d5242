"""Batch against energy for four weight formats: fewer bits are not fewer joules once unpacking and batching count."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js

found = js.sweep("qwen2.5-7b-q4_0-laptop-b8", {"weights": ["q4_0", "q4_k_m", "q6_k", "q8_0"], "batch": range(1, 65)})

figure, axes = plt.subplots(figsize=(7, 4.5))
for name in found.weights.values:
    axes.loglog(found.batch, found.energy_per_answer.sel(weights=name), label=name)
axes.set(xlabel="batch", ylabel="energy per answer [J]",
         title="Qwen2.5 7B on an RTX 5070 Ti laptop; lines end where memory does")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

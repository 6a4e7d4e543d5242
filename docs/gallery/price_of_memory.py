"""What the memory limit costs: the cheapest answer on a card, against the memory that it might have had."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import joulesim as js

capacity = np.linspace(8, 48, 41) * 2**30
over = {"hardware.memory_capacity": capacity, "weights": ["q4_0", "q8_0"], "batch": range(1, 257)}
found = js.sweep("qwen2.5-7b-q4_0-laptop-b8", over, variables=["energy_per_answer"])
cheapest = found.energy_per_answer.min("batch")

figure, axes = plt.subplots(figsize=(7, 4.5))
for name in found.weights.values:
    axes.semilogy(capacity / 2**30, cheapest.sel(weights=name), label=name)
axes.set(xlabel="device memory [GiB]", ylabel="energy per answer at the best batch [J]",
         title="Qwen2.5 7B, RTX 5070 Ti laptop with other amounts of memory")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

"""A power-cap curve: what a limit saves and what it slows, memory-bound at batch 1 and compute-bound at batch 32."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import joulesim as js

found = js.sweep("qwen2.5-7b-q4_0-laptop-b8", {"power_cap": np.linspace(40, 140, 101), "batch": [1, 8, 32]})
free = found.isel(power_cap=-1)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True)
for batch in found.batch.values:
    energy = (found.energy_per_answer / free.energy_per_answer).sel(batch=batch)
    left.plot(found.power_cap, energy, label=f"batch {batch:.0f}")
    right.plot(found.power_cap, (found.output_throughput / free.output_throughput).sel(batch=batch))
left.set(xlabel="power cap [W]", ylabel="energy per answer, share of uncapped")
right.set(xlabel="power cap [W]", ylabel="throughput, share of uncapped")
left.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

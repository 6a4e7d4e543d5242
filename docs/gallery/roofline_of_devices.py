"""Forty devices by their roofs: what an 8B model in 4 bits could stream, and what it could compute."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js
from joulesim import catalogue

devices = [js.load_hardware(name) for name in catalogue.names("hardware")]
devices = [d for d in devices if d.memory_bandwidth and d.compute_rate.fp16 and d.power_limit]
devices = sorted(devices, key=lambda d: d.memory_bandwidth)[-40:]

figure, axes = plt.subplots(figsize=(9, 6.5))
marks = axes.scatter([d.memory_bandwidth for d in devices], [d.compute_rate.fp16 for d in devices],
                     c=[d.memory_bandwidth / d.power_limit / 1e9 for d in devices], norm="log", cmap="viridis")
for d in devices:
    place = d.memory_bandwidth, d.compute_rate.fp16
    axes.annotate(d.name, place, fontsize=6, xytext=(3, 2), textcoords="offset points")
for intensity in (100, 300):
    ends = [min(d.memory_bandwidth for d in devices), max(d.memory_bandwidth for d in devices)]
    axes.plot(ends, [intensity * end for end in ends], color="#bbbbbb", lw=0.8, label=f"ridge at {intensity} FLOP/B")
axes.set(xscale="log", yscale="log", xlabel="memory bandwidth [B/s]", ylabel="16-bit matrix rate [FLOP/s]")
figure.colorbar(marks, label="bandwidth per watt of rated power [GB/s/W]")
axes.legend(fontsize=8)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

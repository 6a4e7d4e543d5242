"""Accelerators that do not exist: an H100 with twice the bandwidth, a node shrink, and near-memory compute."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js

H100 = "h100-sxm"
devices = {
    "H100": js.load_hardware(H100),
    "bandwidth x2": js.scale(H100, {"memory_bandwidth": 2}, "h100-2x", static_power="x1.1", energy_per_byte="kept"),
    "node shrink": js.scale(H100, {"compute_rate.fp16": 1.5}, "h100-n2", static_power="x0.8",
                            energy_per_operation="x0.65"),
    "near memory": js.scale(H100, {"memory_bandwidth": 4}, "h100-near", static_power="kept", energy_per_byte="x0.35"),
}
found = js.sweep("llama-3.1-8b-h100", {"hardware": list(devices.values()), "batch": [1, 4, 16, 64, 256]})

figure, axes = plt.subplots(figsize=(7, 4.5))
for i, label in enumerate(devices):
    axes.loglog(found.batch, found.energy_per_answer.isel(hardware=i), "o-", ms=3, label=label)
axes.set(xlabel="batch", ylabel="energy per answer [J]", title="Llama 3.1 8B: what each change is worth")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

"""A B200 against an H100, joule for joule: energy per output token and time per token over the batch."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js

over = {"hardware": ["h100-sxm", "h200-sxm", "b200-sxm"], "batch": [8, 16, 32, 64, 128, 256, 512]}
found = js.sweep("llama-3.1-8b-h100", over)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
for name in found.hardware.values:
    one = found.sel(hardware=name)
    left.loglog(one.batch, one.energy_per_output_token, "o-", ms=3, label=name)
    right.loglog(one.tpot * 1e3, one.energy_per_output_token, "o-", ms=3, label=name)
left.set(xlabel="batch", ylabel="energy per output token [J]", title="Llama 3.1 8B, bf16, vLLM, chat lengths")
right.set(xlabel="time per output token [ms]", title="At the same speed")
left.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

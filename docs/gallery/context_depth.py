"""What depth costs: energy per output token against the prompt's length, at four batches."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import joulesim as js

scenario = js.load_scenario("llama-3.1-8b-h100").replace({"workload": {"prompt_tokens": 1000, "output_tokens": 400}})
found = js.sweep(scenario, {"batch": [1, 8, 32, 128], "prompt": np.geomspace(128, 65536, 60).round()})

figure, axes = plt.subplots(figsize=(7, 4.5))
for batch in found.batch.values:
    axes.loglog(found.prompt, found.energy_per_output_token.sel(batch=batch), label=f"batch {batch:.0f}")
axes.set(xlabel="prompt [token]", ylabel="energy per output token [J]", title="Llama 3.1 8B on an H100, 400 tokens out")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

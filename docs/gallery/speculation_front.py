"""The speculation front: draft lengths between faster and cheaper, at the acceptance counts of the shipped scenario."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js

speculating = js.load_scenario("qwen2.5-7b-speculative-code-m5-pro")
plain = js.predict(speculating.replace({"speculation": {"method": "none"}}))
found = js.sweep(speculating, {"speculation.draft_length": range(1, 9)})

figure, axes = plt.subplots(figsize=(7, 4.5))
axes.plot(found.tpot * 1e3, found.energy_per_output_token, "o-")
for one in (found.isel({"speculation.draft_length": i}) for i in range(found.tpot.size)):
    k = one["speculation.draft_length"].item()
    place = one.tpot.item() * 1e3, one.energy_per_output_token.item()
    axes.annotate(f"{k:.0f}", place, xytext=(4, 4), textcoords="offset points")
axes.plot(plain.tpot * 1e3, plain.energy_per_output_token, "s", color="#d1495b", label="no speculation")
axes.set(xlabel="time per output token [ms]", ylabel="energy per output token [J]",
         title="Tokens drafted per step, Qwen2.5 7B on an M5 Pro")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

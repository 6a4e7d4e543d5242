"""Where a bigger model in a batch beats a smaller one alone, per correct answer. The accuracies are examples."""

from pathlib import Path

import matplotlib.pyplot as plt

import joulesim as js

CORRECT = {"qwen2.5-0.5b-instruct": 340, "qwen2.5-1.5b-instruct": 620, "qwen2.5-7b-instruct": 830}

over = {"model": list(CORRECT), "task.correct": list(CORRECT.values())}
found = js.sweep("qwen2.5-7b-q4_0-laptop-b8", {"size": over, "batch": range(1, 65)})

figure, axes = plt.subplots(figsize=(7, 4.5))
for i, (model, correct) in enumerate(CORRECT.items()):
    one = found.energy_per_correct_answer.isel(size=i)
    axes.loglog(found.batch, one, label=f"{model}, {correct / 10:.0f} % correct")
alone = found.energy_per_correct_answer.isel(size=1).sel(batch=1).item()
axes.axhline(alone, color="#999999", lw=0.8, ls="--", label="the 1.5B alone")
axes.set(xlabel="batch", ylabel="energy per correct answer [J]", title="Q4_0 on an RTX 5070 Ti laptop")
axes.legend(fontsize=8)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

"""Uncertainty bands against measured points: Llama 3.1 8B on an H100 over the batch (ML.ENERGY leaderboard v3)."""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import joulesim as js
from joulesim import catalogue

table = catalogue.data_root() / "validation" / "published" / "mlenergy_v3.csv"
with table.open(newline="") as handle:
    rows = [r for r in csv.DictReader(handle) if (r["hardware"], r["model"], r["task"]) == (
        "h100-sxm", "llama-3.1-8b-instruct", "lm-arena-chat")]
measured = np.array([[float(r["batch"]), float(r["energy_per_token"])] for r in rows])

batch = np.unique(np.geomspace(4, 600, 25).round())
found = js.sweep("llama-3.1-8b-h100", {"batch": batch}, intervals=True)

figure, axes = plt.subplots(figsize=(7, 4.5))
low, high = (found[f"energy_per_output_token_interval.{end}"] for end in ("low", "high"))
axes.fill_between(batch, low, high, alpha=0.25, label="80 % interval")
axes.loglog(batch, found.energy_per_output_token, label="predicted")
axes.loglog(*measured.T, "ko", ms=4, label="measured")
axes.set(xlabel="running requests", ylabel="energy per output token [J]", title="Llama 3.1 8B, bf16, vLLM on an H100")
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")

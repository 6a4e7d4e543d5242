"""Absolute speeds and watts of llama.cpp on NVIDIA cards, beside the ratios that the claims check."""

import csv
from pathlib import Path

import pytest

from joulesim import predict
from joulesim.scenario import build
from joulesim.validate import claims
from joulesim.validate.cases import Case, gathered

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "reference" / "llama_cpp_speed.csv").open(encoding="utf-8")))
DESKTOP = {"base": "rtx-5070-ti-laptop", "name": "rtx-5070"}
"""The desktop card has the laptop card's memory and two more of its 46 processors."""


def scenario(row):
    hardware = DESKTOP if row["device"] == "rtx-5070" else {"base": row["device"]}
    return build(
        {"hardware": {**hardware, "power_limit": row["power_limit"]}, "runtime": "llama.cpp-cuda", "model": row["model"],
         "weights": row["weights"], "workload": {"prompt_tokens": int(row["context"]), "output_tokens": 2},
         "serving": {"batch": int(row["rows"])}},
        "anchor",
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['device']} {r['model']} {r['weights']} {r['rows']} {r['power_limit']}")
def test_speed_is_within_a_quarter_of_a_published_one(row):
    speed = int(row["rows"]) / Case([gathered(scenario(row))], ()).decode_time
    assert speed == pytest.approx(float(row["token_per_second"]), rel=0.25)


def test_a_limit_takes_power_before_speed():
    """RTX 5060 Ti, 150 W instead of 180 W: 15 % less power for 1 % less speed."""
    full, limited = (Case([gathered(scenario(r))], ()) for r in ROWS if r["watt"])
    speed = full.decode_time / limited.decode_time
    power = limited.decode_energy / limited.decode_time / (full.decode_energy / full.decode_time)
    assert speed > 0.97 and 0.75 < power < 1.0


def test_the_two_machines_print_absolute_figures_beside_every_ratio():
    rtx, mac = (Case([gathered(claims.templates()[name])], ()) for name in ("rtx", "m5-pro"))
    assert 1 / rtx.decode_time == pytest.approx(117, rel=0.05)
    assert rtx.decode_energy / rtx.decode_time == pytest.approx(115, rel=0.01)  # at its limit from batch 1
    assert 1 / mac.decode_time == pytest.approx(63, rel=0.05)
    assert predict(claims.templates()["m5-pro"]).power < 60

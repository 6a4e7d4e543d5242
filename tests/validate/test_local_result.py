"""What js.fit gives: constants, errors beside their noise, a profile; and from thin records a fit or one clear line."""

import json

import numpy as np
import pytest
import yaml

import joulesim as js
from joulesim.cli import main
from joulesim.errors import InputError, NotFoundError
from joulesim.measure.campaign import Runner
from joulesim.measure.conditions import Device
from joulesim.measure.plan import read_campaign
from joulesim.measure.records import RecordFile, read_records
from joulesim.measure.validity import Reason, Validity
from joulesim.validate import local
from joulesim.validate.local_points import imagined
from joulesim.validate.local_result import IDENTIFIES

DECODE = {"phase": "decode", "sequences": [1, 4], "depth": 64}
DEEP = {"phase": "decode", "depth": 1024}
CHUNK = {"phase": "chunk", "tokens": 8, "depth": 64}
PREFILL = {"phase": "prefill", "tokens": [32, 512]}
HELD = {"role": "test", "axis": "batch", "models": ["s13"], "calls": [{"phase": "decode", "sequences": 3, "depth": 64}]}


def run(tmp_path, weights=("q4_0",), calls=(DECODE, DEEP, CHUNK, PREFILL), held=HELD, rounds=1, models=("s13", "s50")):
    """Records of the stand-in."""
    groups = [{"role": "fit", "models": list(models), "weights": list(weights), "calls": list(calls)}]
    groups += [{**held, "weights": list(weights)}] if held else []
    declared = {"name": "thin", "rounds": rounds, "point_time": "1 ms", "groups": groups}
    Runner(read_campaign(declared, "thin"), tmp_path / "r.jsonl", "fake").run()
    return read_records(tmp_path / "r.jsonl")


def test_errors_stand_beside_the_noise_of_the_run(tmp_path):
    held = js.fit(run(tmp_path, rounds=2)).held_out
    assert held["decode"].count == 1 and held["decode"].median < 5 and held["decode"].noise_median < 2
    assert held["decode"].reason == ""
    assert held["prefill"] == ("prefill", 0, None, None, None, None,
                               "no prefill call was set aside in the formats that were fitted")


def test_a_real_model_is_judged_over_all_its_calls(tmp_path):
    calls = [{"phase": "decode", "sequences": 3, "depth": 64}, {"phase": "prefill", "tokens": 100}]
    errors = [e for e in js.fit(run(tmp_path, held={**HELD, "axis": "model", "calls": calls})).errors if e.axis == "model"]
    assert [(e.phase, e.count, e.bar) for e in errors] == [("decode", 1, None), ("prefill", 1, None), ("all", 2, (8.0, 18.0))]
    assert errors[2].passed and not errors[2]._replace(median=8.1).passed and errors[0]._replace(median=99.0).passed


def test_no_noise_from_one_round(tmp_path):
    held = js.fit(run(tmp_path)).held_out["decode"]
    assert held.median is not None and held.noise_median is None
    assert held.reason == "one round: no call was measured twice"


def test_what_nothing_was_said_about_stays_at_the_datasheet(tmp_path):
    records = run(tmp_path, calls=(DECODE,))
    plain, informed = js.fit(records), js.fit(records, hardware="rtx-4090")
    spec = js.load_hardware("rtx-4090")
    assert local._start("stream", spec) == 1 / spec.memory_bandwidth
    assert local._start("pass", spec) == pytest.approx(0.02 / spec.memory_bandwidth)
    assert local._start("q4_0@1", spec) == 2 / spec.matrix_rate and local._start("per_call", spec) == 2e-5
    assert informed.unidentified["q4_0@512"] == IDENTIFIES["table"]
    assert informed.unidentified["attention@512x64"] == IDENTIFIES["attention"]
    of = [{c.name: c.value for c in result.constants()}["attention@512x64"] for result in (plain, informed)]
    assert of[1] == pytest.approx(4 * 64 / spec.matrix_rate, rel=0.5) and of[0] > 100 * of[1]


def test_a_profile_starts_from_the_one_that_was_given(tmp_path, capsys):
    result = js.fit(run(tmp_path), hardware="rtx-4090")
    written = yaml.safe_load(result.write(tmp_path / "out" / "mine.yaml").read_text())
    assert (written["base"], written["name"]) == ("rtx-4090", "rtx-4090-measured")
    assert "memory_bandwidth" not in written and written["sources"]["measured_memory_bandwidth"]["kind"] == "measured"
    loaded, base = js.load_hardware(tmp_path / "out" / "mine.yaml"), js.load_hardware("rtx-4090")
    assert loaded.memory_bandwidth == base.memory_bandwidth and loaded.power_limit == base.power_limit
    table = dict(zip(result.fitted.formats, result.fitted.table().values(), strict=True))
    assert loaded.measured_compute_rate.fp16 == pytest.approx(2 / table["q4_0"][-1], rel=1e-3)
    assert main(["predict", "gemma-3-270m", "--on", str(tmp_path / "out" / "mine.yaml"), "-o", "json"]) == 0
    capsys.readouterr()
    again = js.fit(read_records(tmp_path / "r.jsonl"), hardware=tmp_path / "out" / "mine.yaml")
    assert again.profile()["base"] == str(tmp_path / "out" / "mine.yaml")
    assert js.fit(read_records(tmp_path / "r.jsonl"), hardware=base).profile()["base"] == "rtx-4090"


def test_no_such_profile(tmp_path):
    with pytest.raises(NotFoundError, match="rtx-4091.*Did you mean rtx-4090"):
        js.fit(run(tmp_path), hardware="rtx-4091")


def test_the_command_takes_a_profile_too(tmp_path, capsys):
    run(tmp_path)
    assert main(["validate", "local", "--no-measuring", "--records", str(tmp_path / "r.jsonl"), "--folder",
                 str(tmp_path / "out"), "--hardware", "rtx-4090", "-o", "json"]) == 0
    found = capsys.readouterr().out
    assert '"unidentified"' in found and '"held_out"' in found
    assert yaml.safe_load((tmp_path / "out" / "profile.yaml").read_text())["base"] == "rtx-4090"


@pytest.mark.parametrize("thin", [
    {"weights": ("f32",)}, {"weights": ("f32", "f16")}, {"calls": (DECODE, DEEP)}, {"calls": (PREFILL,)},
    {"calls": (DECODE,)}, {"models": ("s13",)}, {"held": None},
    {"calls": ({"phase": "decode"},), "models": ("s13",), "held": None},
], ids=["f32 alone", "f32 and f16", "no prefill", "prefill alone", "one depth", "one shape", "nothing held out", "one point"])
def test_thin_records_are_fitted_and_the_rest_is_named(tmp_path, thin):
    result = js.fit(run(tmp_path, **thin))
    fitted = result.calls.of(lambda r: r.campaign.role == "fit")
    assert np.abs(np.log(result.fitted.predict(fitted) / fitted.time)).max() < 0.35
    assert result.fitted.formats == sorted(thin.get("weights", ("q4_0",)))
    assert result.unidentified and set(result.unidentified) < set(result.fitted.names)
    assert all(np.isfinite(c.value) and np.isfinite(c.stderr) for c in result.constants())
    assert set(result.held_out) == {"decode", "chunk", "prefill"}
    assert js.load_hardware(result.write(tmp_path / "p.yaml")).measured_memory_bandwidth > 0


def altered(records, **changes):
    return [r.model_copy(update=changes) for r in records]


def test_nothing_to_fit_says_what_the_records_are(tmp_path):
    records = run(tmp_path)
    invalid = altered(records, validity=Validity.of([Reason(code="run-failed")]))
    with pytest.raises(InputError, match=r"expected calls that were measured, got 13 invalid \(run-failed\)"):
        js.fit(invalid)
    with pytest.raises(InputError, match="got 13 of other things than single calls"):
        js.fit(altered(records, campaign=None))
    with pytest.raises(InputError, match="expected calls to fit on, got none; a campaign's groups with role: fit"):
        js.fit([r for r in records if r.campaign.role == "test"])


def test_one_fit_is_of_one_machine_and_clock(tmp_path):
    records = list(run(tmp_path))
    with pytest.raises(InputError, match="records: expected one clock, got cpu, wall; fit each on its own"):
        js.fit([*records, *altered(records, clock="wall")])
    with pytest.raises(InputError, match="records: expected one machine, got .*H200"):
        js.fit([*records, *altered(records, device=Device(names=("H200",)))])


def test_a_model_known_by_name_alone(tmp_path):
    records = [r.model_copy(update={"scenario": {**r.scenario, "model": {"name": "gpt"}}}) for r in run(tmp_path)]
    with pytest.raises(InputError, match="expected what the model consists of, got its name alone; measure again and give"):
        js.fit(records)


def test_records_of_an_older_version_are_to_be_measured_again(tmp_path):
    model = {"layers": 4, "heads": 8, "head_dim": 64, "matrices": [["layer", 8, 8, "q4_0", 1]]}
    records = [r.model_copy(update={"scenario": {**r.scenario, "model": model}}) for r in run(tmp_path)]
    with pytest.raises(InputError, match="expected a model with norm_channels, gate_channels, activation, got none; measure "
                                         "again; an older version wrote it"):
        js.fit(records)


def test_probes_that_say_different_things_are_not_mixed(tmp_path):
    records = list(run(tmp_path))
    for state in ({"core_probe": 2e-3}, {"core_probe": 2e-3, "memory_probe": 1e-3}):
        known = altered(records[:3], state=records[0].state.model_copy(update=state))
        with pytest.raises(InputError, match="records: expected one probe of the core, got .*none; fit each on its own"):
            js.fit([*known, *records[3:]])


def test_calls_that_an_earlier_run_timed_by_another_clock_are_left_out_and_counted(tmp_path, capsys):
    records = list(run(tmp_path))
    with RecordFile(tmp_path / "both.jsonl") as both:
        for record in [*altered(records[:5], clock="wall"), *records]:
            both.append(record)
    options = ["validate", "local", "--no-measuring", "--folder", str(tmp_path / "out"), "-o", "json"]
    found = []
    for name in ("r", "both"):
        assert main([*options, "--records", str(tmp_path / f"{name}.jsonl")]) == 0
        found.append(json.loads(capsys.readouterr().out))
    alone, both = found
    assert both["errors"] == alone["errors"] and both["clock"] == alone["clock"] == "cpu"
    assert (alone["campaign"]["left out of another clock"], both["campaign"]["left out of another clock"]) == (0, 5)


def test_nothing_held_out_is_no_pass(tmp_path, capsys):
    run(tmp_path, held=None)
    assert main(["validate", "local", "--no-measuring", "--strict", "--records", str(tmp_path / "r.jsonl"), "--folder",
                 str(tmp_path / "out"), "-o", "json"]) == 1
    assert '"passed": false' in capsys.readouterr().out


def test_how_wide_heads_fare_is_assumed_until_a_shape_has_them(tmp_path):
    result = js.fit(run(tmp_path))
    assert result.unidentified["attention@1x256"] == IDENTIFIES["attention"]
    assert "attention@1x64" not in result.unidentified
    sizes = {"layers": 12, "norm_channels": 2048, "gate_channels": 3072, "activation": "silu",
             "matrices": [["layer", 1024, 1024, "q4_0", 12]]}
    call = {"phase": "decode", "sequences": 1, "tokens": 1, "depth": 4000}
    narrow, wide = (imagined([call], {**sizes, "heads": heads, "head_dim": 1024 // heads}, "q4_0", None, [(1.0, 1.0)])
                    for heads in (16, 4))
    assumed, seen = (result.fitted.predict(calls)[0] for calls in (wide, narrow))
    unsure, sure = (np.linalg.norm(result.fitted.uncertainty(calls)) for calls in (wide, narrow))
    assert assumed == pytest.approx(seen, rel=0.5) and unsure > 1.5 * sure

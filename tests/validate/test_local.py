"""The local fit finds the constants that a stand-in was made of, and the report needs nobody else."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import joulesim as js
from joulesim.catalogue import data_root
from joulesim.cli import main
from joulesim.errors import InputError
from joulesim.measure.campaign import Runner
from joulesim.measure.conditions import State
from joulesim.measure.plan import read_campaign
from joulesim.measure.records import read_records
from joulesim.validate import local, local_errors, local_points, local_report


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("local") / "records.jsonl"
    declared = yaml.safe_load((data_root() / "validation" / "campaigns" / "quick.yaml").read_text())
    Runner(read_campaign(declared, "quick"), path, "fake").run()
    return path


@pytest.fixture(scope="module")
def calls(records):
    return local_points.points(read_records(records))


@pytest.fixture(scope="module")
def fitted(records):
    rounds = local_points.points(read_records(records), joined=False)
    return local.fit(rounds.of(lambda r: r.campaign.role == "fit"))


def test_rounds_are_joined_or_calls_of_their_own(records, calls):
    assert len(calls) == 116
    assert all(len(rounds) == 2 for rounds in calls.rounds)
    apart = local_points.points(read_records(records), joined=False)
    assert len(apart) == 232
    assert sorted(apart.time) == pytest.approx(sorted(time for rounds in calls.rounds for time, *_ in rounds))
    assert calls.time == pytest.approx([np.sqrt(first[0] * second[0]) for first, second in calls.rounds])


def test_held_out_calls_are_found_again(calls, fitted):
    found = {(e.axis, e.phase): e for e in local_errors.held_out(fitted, calls)}
    assert {"shape", "batch", "depth", "prompt", "all"} == {axis for axis, _ in found}
    for errors in found.values():
        known = 2.0 if errors.axis != "depth" else 3.0  # what 4,096 tokens overflow, no fitted call does
        assert errors.median < known and errors.p90 < 3.0
        assert errors.passed


def test_constants_are_those_of_the_stand_in(fitted):
    found = {c.name: c for c in fitted.constants()}
    assert found["q4_0@512"].value == pytest.approx(2e-11, rel=0.05)
    assert found["f16@512"].value == pytest.approx(5e-11, rel=0.1)
    assert found["attention@1x64"].value == pytest.approx(4 * 64 * 8e-11, rel=0.2)  # the rest is laid to reading the cache
    assert found["q4_0@512"].identified


def test_a_script_fits_what_a_campaign_wrote(records, fitted):
    again = js.fit(records)
    assert again.records_hash == fitted.records_hash and again.constants() == fitted.constants()


def slowed(records):
    """Records as a core would have left them that others slow down by a factor that a probe sees."""
    def one(record, s):
        seen = record.latency.e2e_latency
        if seen is None:
            return record
        stretched = seen.model_copy(update={"median": seen.median * s, "mean": seen.mean * s})
        return record.model_copy(update={
            "clock": "cpu", "state": record.state.model_copy(update={"core_probe": 1e-4 * s}),
            "latency": record.latency.model_copy(update={"e2e_latency": stretched})})

    slowness = np.random.default_rng(1).uniform(1.0, 1.7, 10_000)
    return [one(r, s) for r, s in zip(read_records(records), slowness, strict=False)]


def test_a_slow_core_is_not_a_slow_kernel(records, fitted):
    calls = local_points.points(slowed(records))
    again = local.fit(calls.of(lambda r: r.campaign.role == "fit"))
    of, known = ({c.name: c.value for c in f.constants()} for f in (again, fitted))
    assert of["core_exponent"] + of["memory_exponent"] == pytest.approx(1.0, abs=0.1)  # both parts slowed alike
    assert of["q4_0@512"] == pytest.approx(known["q4_0@512"], rel=0.1)
    assert all(e.passed for e in local_errors.held_out(again, calls))


def test_noise_is_what_the_probe_leaves(records, calls, fitted):
    left, timed = local_errors.noise(fitted, calls)
    assert len(left) == len(calls) and left == pytest.approx(timed) and timed.max() < 2.0  # no probe, nothing taken off
    again = local_points.points(slowed(records))
    left, timed = local_errors.noise(local.fit(again.of(lambda r: r.campaign.role == "fit")), again)
    assert np.median(timed) > 10 and np.median(left) < 2 and (left < timed + 3).all()


def test_rows_between_two_entries_lie_on_a_line(fitted):
    model = {"layers": 4, "heads": 8, "head_dim": 64, "norm_channels": 1024, "gate_channels": 1536, "activation": "silu",
             "matrices": [["layer", 512, 512, "q4_0", 400]]}

    def step(rows):
        call = {"phase": "prefill", "sequences": 1, "tokens": rows, "depth": 0}
        one = local_points.imagined([call], model, "q4_0", 100_000, [(1.0, 1.0)])
        return fitted.predict(one)[0] - fitted.predict(dataclasses.replace(one, matrix_rows=0 * one.matrix_rows))[0]

    table = dict(zip(local.ROWS, fitted.table()["q4_0"], strict=True))
    for low, high in itertools.pairwise(local.ROWS):
        middle = (low + high) // 2
        line = np.interp(middle, [low, high], [step(low), step(high)])
        assert step(middle) == pytest.approx(line) and step(low) / low == pytest.approx(table[low] / table[1] * step(1))
    assert step(2048) == pytest.approx(4 * step(512))


SIZES = {"layers": 3, "heads": 8, "kv_heads": 2, "head_dim": 64, "norm_channels": 1024, "gate_channels": 1536,
         "activation": "silu", "matrices": [["layer", 512, 512, "q4_0", 3]]}


def one_call(tokens=1, depth=0, sequences=1, **changes):
    call = {"phase": "prefill", "sequences": sequences, "tokens": tokens, "depth": depth}
    return local_points.imagined([call], SIZES | changes, "q4_0", 512, [(1.0, 1.0)])


@pytest.mark.parametrize(("tokens", "depth", "seen"), [
    (1, 100, 101), (8, 100, 8 * 104.5), (63, 0, 63 * 32),
    (64, 0, 64 * 64), (65, 0, 3 * 64 * 64), (128, 0, 3 * 64 * 64), (64, 1, 2 * 64 * 64), (256, 0, 10 * 64 * 64),
])
def test_many_rows_look_at_whole_tiles_that_the_mask_leaves(tokens, depth, seen):
    assert one_call(tokens, depth).looks == pytest.approx(3 * 8 * seen)
    assert one_call(tokens, depth, sequences=5).looks == pytest.approx(5 * 3 * 8 * seen)


def test_the_last_layer_ends_with_the_rows_whose_logits_are_wanted():
    parts = [["layer", 512, 512, "q4_0", 2], ["last", 512, 512, "q4_0", 1], ["output", 900, 512, "q4_0", 1]]
    alone, one = one_call(7, matrices=parts[:2]), one_call(7, matrices=parts)
    assert one.matrix_batch.tolist() == [7, 1, 1] and one.silu_work == (2 * 7 + 1) * 1536
    assert one.norm_work == pytest.approx((2.5 * 7 + 0.5) * 1024)
    assert one.bytes - alone.bytes == pytest.approx(900 * 512 * 4.5 / 8 + 3 * 4 * 900)  # the matrix, and logits thrice
    verified = local_points.imagined([{"phase": "chunk", "sequences": 1, "tokens": 7, "depth": 0}], SIZES | {"matrices": parts},
                                     "q4_0", 512, [(1.0, 1.0)])
    assert verified.matrix_batch.tolist() == [7, 7, 7] and verified.silu_work == 3 * 7 * 1536


def test_of_experts_those_that_a_token_is_sent_to_count():
    parts = [["layer", 512, 512, "q4_0", 3], ["expert", 512, 512, "q4_0", 24], ["output", 900, 512, "q4_0", 1]]
    one = one_call(matrices=parts, experts=8, experts_used=2)
    assert one.matrix_rows.tolist() == [3 * 512, 24 / 4 * 512, 900]
    many = one_call(100, matrices=parts, experts=8, experts_used=2)  # all of them, each with a fourth of the rows
    assert many.matrix_rows.tolist() == pytest.approx([3 * 512, 24 * 512, 900])
    assert many.matrix_batch.tolist() == pytest.approx([100, 25, 1])


def test_a_long_prompt_goes_through_all_layers_once_a_microbatch(fitted):
    one, two = one_call(512), one_call(1024)
    assert (one.passes, two.passes) == (1, 2)
    cached = 2 * 2 * 64 * 2 * 3
    assert one.bytes - 512 * 512 * 3 * 4.5 / 8 == pytest.approx(512 * cached)
    assert two.bytes - 2 * 512 * 512 * 3 * 4.5 / 8 == pytest.approx(2 * 1024 * cached)
    assert two.passed_over == pytest.approx(8 * 2 * 1024 * cached)
    dear, free = (fit_with(fitted, per_layer=seconds, per_sequence_layer=1e-30) for seconds in (1.0, 1e-30))
    assert dear.predict(two)[0] - free.predict(two)[0] == pytest.approx(3 * 2)
    dear, free = (fit_with(fitted, per_sequence_layer=seconds) for seconds in (1.0, 1e-30))
    several = one_call(sequences=5)
    assert dear.predict(several)[0] - free.predict(several)[0] == pytest.approx(3 * 5)


def test_attention_of_less_rows_than_a_tile_is_of_the_other_kernel(fitted):
    slow = fit_with(fitted, **{"attention@64x64": 1.0})
    for rows, same in ((32, True), (33, True), (63, True), (64, False)):
        assert (slow.predict(one_call(rows))[0] == fitted.predict(one_call(rows))[0]) == same


def test_the_report_has_a_unit_for_each_constant_outside_the_tables(fitted):
    assert set(local_report._UNITS) == {*local._COMMON, "extra_columns"}


def test_what_stands_around_the_matrices_is_counted_by_its_kind():
    one = one_call(7, activation="gelu")
    assert (one.norm_work, one.silu_work, one.gelu_work) == (3 * 7 * 1024, 0, 3 * 7 * 1536)
    assert one_call(7).silu_work == 3 * 7 * 1536


def fit_with(fitted, **values):
    """A fit in which some constants are others."""
    logs = fitted.logs.copy()
    for name, value in values.items():
        logs[fitted.names.index(name)] = np.log(value)
    return dataclasses.replace(fitted, logs=logs)


def test_heads_pass_over_keys_of_others_once_a_layer_has_more_than_a_cache_holds(fitted):
    a_position = 2 * 2 * 64 * 2  # keys and values of two heads in 16 bits
    free, dear = (fit_with(fitted, near_cache=1000 * a_position, **{"pass": rate}) for rate in (1e-30, 1e-9))
    for depth, over in ((99, 0), (999, 0), (1999, 1000), (7999, 7000)):
        calls = one_call(depth=depth)
        extra = dear.predict(calls)[0] - free.predict(calls)[0]
        assert extra == pytest.approx(1e-9 * 3 * 8 * over * a_position, abs=1e-12)
    few = one_call(depth=7999, kv_heads=1)
    assert dear.predict(few)[0] - free.predict(few)[0] == pytest.approx(1e-9 * 3 * 8 * 3000 * a_position)


def test_arithmetic_and_memory_slow_down_apart(fitted):
    powers = fit_with(fitted, core_exponent=1.0, memory_exponent=1e-9, stream_exponent=1.0)
    calls = one_call(depth=500)
    alone = fit_with(powers, stream=1e-30, **{"pass": 1e-30}).predict(calls)[0]
    both = powers.predict(calls)[0]
    for arithmetic, memory in ((1.5, 1.0), (1.0, 2.0), (1.3, 1.7)):
        slow = dataclasses.replace(calls, slowness=np.array([[arithmetic, memory]]))
        assert powers.predict(slow)[0] == pytest.approx(arithmetic * alone + memory * (both - alone))


def test_a_record_that_does_not_tell_the_probe_s_parts_apart_counts_its_whole():
    seen = [State(core_probe=3e-3), State(core_probe=3e-3, memory_probe=1e-3), State()]
    assert [local_points.pace(s) for s in seen] == [(3e-3, 3e-3), (pytest.approx(2e-3), 1e-3), None]
    assert [local_points.slowness(s, (1e-3, 5e-4)) for s in seen[1:]] == [(pytest.approx(2.0), 2.0), (1.0, 1.0)]


def test_a_format_that_was_never_seen_is_the_mean_of_the_others(calls, fitted):
    mine = calls.of(lambda r: r.scenario["weights"] == "q4_0")
    strange = dataclasses.replace(mine, matrix_format=np.array(["q9_9"] * len(mine.matrix_format)))
    assert (fitted.predict(strange) > fitted.predict(mine)).all()
    errors = local_errors.held_out_formats(calls)
    assert {e.axis for e in errors} == {"format"} and all(e.passed and e.bar is None for e in errors)


def test_a_subset_predicts_the_same(calls, fitted):
    keep = np.arange(len(calls)) % 3 == 0
    assert fitted.predict(calls.where(keep)) == pytest.approx(fitted.predict(calls)[keep])


def test_nothing_to_fit():
    with pytest.raises(InputError, match="expected calls that were measured, got no records; run"):
        local_points.points([])


def test_command(records, tmp_path, capsys):
    arguments = ["validate", "local", "--no-measuring", "--records", str(records), "--folder", str(tmp_path)]
    assert main([*arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] and "nothing here was measured" in found["verdict"]
    assert found["joules"].startswith("Joules are unknown: no-meter")
    assert len(found["split_hash"]) == 64
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 4
    for outside in ("http://", "https://", "<script", "src="):
        assert outside not in page
    assert main(["predict", "gemma-3-270m", "--on", str(tmp_path / "profile.yaml"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tpot"] > 0


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_a_budget_of_nothing(tmp_path, capsys, minutes):
    assert main(["validate", "local", "--minutes", minutes, "--folder", str(tmp_path), "--runtime", "fake"]) == 2
    assert f"--minutes: expected more than 0, got {minutes}; leave it out for no limit" in capsys.readouterr().err


def test_doctor(capsys):
    assert main(["doctor", "--quick", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {m["name"] for m in found["meters"]} == {"nvml", "amd", "apple", "jetson", "rapl"}
    assert {r["name"] for r in found["runtimes"]} == {"llama_cpp", "llama_server", "transformers"}
    assert all(r["remedy"] for r in found["runtimes"] if r["works"] == "no")
    assert found["next"]


def test_dry_run_of_the_gpu_script(tmp_path, capsys):
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert "--campaign gpu --minutes 9" in makefile and "--runtime fake --meter none" in makefile
    arguments = ["validate", "local", "--campaign", "gpu", "--minutes", "9", "--folder", str(tmp_path)]
    assert main([*arguments, "--runtime", "fake", "--meter", "none", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    errors = {(e["axis"], e["phase"]): e["median"] for e in found["errors"]}
    assert errors[("batch", "decode")] < 5 and errors[("size", "decode")] < 5
    assert (tmp_path / "report.html").exists() and (tmp_path / "records.jsonl").exists()

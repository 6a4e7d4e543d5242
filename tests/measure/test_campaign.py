"""Campaigns: a fixed split, a random order, one record at a time, and every way of being interrupted."""

import json
import os
import random
import signal
import time
from itertools import groupby

import pytest
import yaml

from joulesim.catalogue import data_root
from joulesim.errors import InputError
from joulesim.measure import campaign as campaign_module
from joulesim.measure import runtimes
from joulesim.measure.campaign import Clocks, Runner
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.plan import in_order, known_models, read_campaign, split_hash
from joulesim.measure.reading import MeterInfo
from joulesim.measure.records import RecordFile, RecordFileError, read_records
from joulesim.measure.runtimes.base import Settings

DECLARED = {
    "name": "tiny", "rounds": 2, "point_time": "1 ms",
    "drift": ["s13", "f16", {"phase": "decode", "depth": 64}],
    "groups": [
        {"role": "fit", "models": ["s13", "s50"], "weights": ["f16", "q4_0"],
         "calls": [{"phase": "decode", "sequences": [1, 4], "depth": 64}, {"phase": "prefill", "tokens": 32}]},
        {"role": "test", "axis": "batch", "models": ["s13"], "weights": ["q4_0"],
         "calls": [{"phase": "decode", "sequences": 3, "depth": 64}]},
    ],
}
TOTAL = 2 * (2 * 2 * 3 + 1)


def declared(**changes):
    return read_campaign(DECLARED | changes, "tiny.yaml")


def names(path):
    return [(r.campaign.point, r.campaign.repeat) for r in read_records(path) if r.campaign.role in ("fit", "test")]


SHIPPED = sorted((data_root() / "validation" / "campaigns").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_campaigns_hold_fit_and_test_apart(path):
    found = read_campaign(yaml.safe_load(path.read_text()), path.name)
    points = found.points()
    fitted = {(p.model, p.weights, p.call) for p in points if p.role == "fit"}
    tested = {(p.model, p.weights, p.call) for p in points if p.role == "test"}
    assert fitted and tested and not fitted & tested
    assert {p.axis for p in points if p.role == "test"} >= {"batch", "depth", "prompt"}


def test_every_point_is_measured_as_often_as_declared(tmp_path):
    summary = Runner(declared(), tmp_path / "r.jsonl", "fake").run()
    assert (summary.measured, summary.failed, summary.complete) == (TOTAL, 0, True)
    found = names(tmp_path / "r.jsonl")
    assert len(found) == len(set(found)) == TOTAL
    assert found[: TOTAL // 2] != sorted(found[: TOTAL // 2])
    assert [p for p, n in found if n == 0] != [p for p, n in found if n == 1]


def test_records_carry_the_split_and_say_that_they_are_modelled(tmp_path):
    Runner(declared(), tmp_path / "r.jsonl", "fake").run()
    records = read_records(tmp_path / "r.jsonl")
    expected = split_hash(declared(), Settings(), "fake")
    assert {r.campaign.hash for r in records} == {expected}
    assert {r.provenance for r in records} == {"modelled"}
    assert {r.campaign.role for r in records} == {"fit", "test", "drift"}
    assert all(r.energy is None and r.energy_reason.code == "no-meter" for r in records)
    assert all(r.clock == "cpu" and r.latency.e2e_latency.n >= 3 for r in records)


def test_hash_changes_with_the_split():
    moved = json.loads(json.dumps(DECLARED))
    moved["groups"][1]["role"] = "fit"
    assert split_hash(read_campaign(moved, ""), Settings(), "fake") != split_hash(declared(), Settings(), "fake")
    assert split_hash(declared(), Settings(threads=2), "fake") != split_hash(declared(), Settings(), "fake")


def test_order_is_random_and_reproducible():
    points = declared().points()
    assert in_order(points, "a") == in_order(points, "a")
    assert in_order(points, "a") != in_order(points, "b")
    assert sorted(p.name for r in in_order(points, "a") for p in r.points) == sorted(p.name for p in points)
    for resident in in_order(points, "a"):  # a depth comes once, so that its cache is filled once
        places = [(p.call.depth, p.call.sequences) for p in resident.points]
        assert len(list(groupby(places))) == len(set(places))


def test_a_first_model_of_each_format_comes_before_all_others():
    for seed in "abcdef":
        order = in_order(declared().points(), seed)
        assert {r.weights for r in order[:2]} == {"f16", "q4_0"}
        assert all(any(p.role == "fit" for p in r.points) for r in order[:2])


def test_the_same_command_goes_on_where_it_stopped(tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    Runner(declared(), whole, "fake").run()
    first = Runner(declared(), parts, "fake", progress=_stop_after(5))
    with pytest.raises(KeyboardInterrupt):
        first.run()
    kept = parts.read_bytes()
    summary = Runner(declared(), parts, "fake").run()
    assert summary.before == 5 and summary.measured == TOTAL - 5
    assert parts.read_bytes().startswith(kept)
    assert sorted(names(parts)) == sorted(names(whole))
    again = Runner(declared(), parts, "fake").run()
    assert again.measured == 0 and again.complete


def _stop_after(n):
    def progress(state):
        if state.done == n:
            raise KeyboardInterrupt

    return progress


def test_a_budget_is_kept_and_what_it_left_out_is_said(tmp_path):
    clock = iter(range(10**6))
    clocks = Clocks(monotonic=lambda: float(next(clock)))
    summary = Runner(declared(), tmp_path / "r.jsonl", "fake", budget=40.0, clocks=clocks).run()
    assert 0 < summary.measured < TOTAL
    assert summary.measured + len(summary.unmeasured) == TOTAL
    assert not summary.complete
    assert Runner(declared(), tmp_path / "r.jsonl", "fake").run().complete


def test_broken_models_are_failed_points(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_module, "_PATIENCE", 3.0)
    shape = {"width": 256, "layers": 1, "heads": 4, "kv_heads": 2, "ffn": 512, "vocabulary": 512}
    broken = declared(
        rounds=1, longest_point="1 ms", drift=None, shapes={"hang": shape, "die": shape, "refuse": shape},
        groups=[{"role": "fit", "models": ["s13", "hang", "die", "refuse"], "weights": ["f16"],
                 "calls": [{"phase": "decode", "sequences": [1, 2]}]}],
    )
    summary = Runner(broken, tmp_path / "r.jsonl", "fake").run()
    assert (summary.measured, summary.failed, summary.complete) == (8, 6, True)
    verdicts = {r.campaign.point: r for r in read_records(tmp_path / "r.jsonl")}
    assert verdicts["s13/f16/decode-b1-d0"].validity.verdict == "valid"
    for model, said in (("hang", "no answer within"), ("die", "SIGABRT"), ("refuse", "does not load")):
        for batch in (1, 2):
            record = verdicts[f"{model}/f16/decode-b{batch}-d0"]
            assert record.validity.codes == ("run-failed",)
            assert said in record.energy_reason.detail


def test_a_clock_that_jumps_spoils_the_point_in_which_it_does(tmp_path):
    jumps = iter([0.0] * 13 + [3600.0] * 10**6)
    clocks = Clocks(wall=lambda: time.monotonic() + next(jumps))
    Runner(declared(rounds=1), tmp_path / "r.jsonl", "fake", clocks=clocks).run()
    spoilt = [r for r in read_records(tmp_path / "r.jsonl") if "clock-jump" in r.validity.codes]
    assert len(spoilt) == 1
    assert spoilt[0].validity.verdict == "invalid"


def test_disk_full_keeps_what_is_there(tmp_path, monkeypatch):
    write, calls = RecordFile._write, []

    def full(self, line):
        calls.append(line)
        if len(calls) == 4:
            raise self._cannot_write(OSError(28, "No space left on device"))
        write(self, line)

    monkeypatch.setattr(RecordFile, "_write", full)
    with pytest.raises(RecordFileError, match="No space left on device; the 3 records before it are safe; make room"):
        Runner(declared(), tmp_path / "r.jsonl", "fake").run()
    monkeypatch.undo()
    assert len(read_records(tmp_path / "r.jsonl")) == 3
    assert Runner(declared(), tmp_path / "r.jsonl", "fake").run().complete


def test_two_campaigns_cannot_write_to_one_file(tmp_path):
    with RecordFile(tmp_path / "r.jsonl"), pytest.raises(RecordFileError, match="another process has it open"):
        Runner(declared(), tmp_path / "r.jsonl", "fake").run()


class InProcess:
    """The fake engine without a process of its own: only the writer is killed here."""

    def __init__(self, name):
        self._engine = runtimes.load(name)
        self.hello = self._engine.facts()

    def ask(self, what, timeout=0.0, **arguments):
        return getattr(self._engine, what)(**arguments)

    def close(self):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_50_random_moments_nothing_complete_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_module, "Worker", InProcess)
    path, chance, wanted = tmp_path / "r.jsonl", random.Random(7), declared(rounds=60)
    kills, seen = 0, b""
    for _ in range(50):
        child = os.fork()
        if child == 0:
            try:
                Runner(wanted, path, "fake").run()
            finally:
                os._exit(0)
        time.sleep(0.01 + 0.06 * chance.random())
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        now = path.read_bytes() if path.exists() else b""
        whole = now[: now.rfind(b"\n") + 1]
        assert whole.startswith(seen)
        seen = whole
    Runner(wanted, path, "fake").run()
    found = names(path)
    assert kills >= 10
    assert len(found) == len(set(found)) == TOTAL // 2 * 60
    assert path.read_bytes().startswith(seen)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RecordFileError, match="choose a folder that you may write to"):
        Runner(declared(), tmp_path / "r.jsonl", "fake").run()


def test_faults_of_a_declaration():
    with pytest.raises(InputError, match="tiny.yaml: groups.0.role: expected 'fit' or 'test', got 'fits'"):
        declared(groups=[DECLARED["groups"][0] | {"role": "fits"}])
    with pytest.raises(InputError, match="expected each point once, got s13/q4_0/decode-b1-d64"):
        declared(groups=[DECLARED["groups"][0], DECLARED["groups"][0] | {"models": ["s13"], "weights": ["q4_0"]}])
    typo = declared(groups=[DECLARED["groups"][0] | {"models": ["s14"]}])
    with pytest.raises(InputError, match="no shape and no file 's14'. Did you mean s1"):
        known_models(typo, {}, "tiny.yaml")


def test_records_and_summary_say_what_sampling_cost(tmp_path):
    info = MeterInfo(name="fake", boundary="board", method="sampled power", update_period=1e-7)
    meter = SampledMeter(info, [Channel("gpu", power=lambda: 42.0)], period=1e-3)
    summary = Runner(declared(rounds=1), tmp_path / "r.jsonl", "fake", meter=meter).run()
    costs = [r.state.sampling for r in read_records(tmp_path / "r.jsonl") if r.state.sampling is not None]
    assert costs and summary.sampling > 0 and min(costs) >= 0
    assert Runner(declared(), tmp_path / "bare.jsonl", "fake").run().sampling is None


@pytest.mark.parametrize(("facts", "threads", "clock"), [
    ({"backend": "cpu"}, 1, "cpu"), ({"backend": "cpu"}, 2, "wall"), ({"backend": "gpu"}, 1, "wall"),
    ({"sees_cpu": False}, 1, "wall"),
])
def test_cpu_time_counts_where_it_is_seen_and_is_all_there_is(facts, threads, clock):
    assert campaign_module.suitable_clock(facts, Settings(threads=threads)) == clock

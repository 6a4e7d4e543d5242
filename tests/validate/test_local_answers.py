"""Seconds per correct answer: predicted from lengths, held against what was measured, unknown with a reason."""

import json
from dataclasses import replace

import numpy as np
import pytest

import joulesim as js
from joulesim.cli import main
from joulesim.measure import synth
from joulesim.measure.campaign import Runner
from joulesim.measure.outcome import Correctness, Question
from joulesim.measure.plan import read_campaign
from joulesim.measure.record import Record
from joulesim.measure.records import RecordFile, read_records
from joulesim.measure.runtimes.base import Call
from joulesim.measure.runtimes.fake import Engine
from joulesim.measure.validity import Reason
from joulesim.validate.local_answers import answered, compare, plain
from joulesim.validate.local_points import _of_shape
from joulesim.validate.local_result import FitResult

CALLS = [{"phase": "decode", "sequences": [1, 4], "depth": [64, 1024]}, {"phase": "prefill", "tokens": [16, 64, 512]}]
DECLARED = {"name": "few", "rounds": 1, "point_time": "1 ms", "groups": [
    {"role": "fit", "models": ["s13", "s50"], "weights": ["q4_0"], "calls": CALLS},
    {"role": "test", "axis": "prompt", "models": ["s50"], "weights": ["q4_0"],
     "calls": [{"phase": "prefill", "tokens": [24, 200]}, {"phase": "decode", "sequences": 2, "depth": [200, 500]}]}]}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("few") / "records.jsonl"
    Runner(read_campaign(DECLARED, "few"), path, "fake").run()
    return path


@pytest.fixture(scope="module")
def fitted(path):
    return js.fit(read_records(path))


def task(first, right=20, factor=1.0, weights="q4_0", **changes):
    """A task of thirty questions that the stand-in answers, each with 16 calls after its prompt."""
    shape, engine = synth.SHAPES["s150"], Engine()
    engine._sizes = {**shape.model_dump(), "weights": weights, "parameters": shape.parameters, "head_channels": shape.head_channels}
    questions = []
    for i in range(30):
        prompt, cached = 90 + i, 70 if i else 0
        calls = [Call(phase="prefill", tokens=prompt - cached, depth=cached),
                 *(Call(phase="decode", depth=prompt + step) for step in range(16))]
        time = factor * sum(map(engine._time, calls))
        questions.append(Question(prompt=prompt, cached=cached, output=17, calls=16, time=time, cpu_time=time, correct=i < right))
    described = _of_shape(shape.model_dump(), weights)
    return Record(**{"provenance": "modelled", "scenario": {"name": "s150/facts", "model": {"name": "s150", **described},
                                                            "task": {"name": "facts"}},
                     "runtime": first.runtime, "device": first.device, "energy_reason": Reason(code="no-meter"),
                     "correctness": Correctness(correct=right, attempted=30), "questions": tuple(questions), **changes})


def test_the_stand_ins_seconds_are_found_from_lengths_alone(fitted):
    found = compare(fitted, task(fitted.calls.records[0]))
    assert found.predicted.value == pytest.approx(found.measured, rel=0.05)
    (low80, high80), (low95, high95) = found.predicted.intervals[0.8], found.predicted.intervals[0.95]
    assert low95 <= low80 < found.predicted.value < high80 <= high95
    assert found.measured_low < found.measured < found.measured_high
    assert (found.inside, found.verdict, found.unit) == (0.8, "inside 80 %", "CPU s")


def test_no_time_that_was_measured_moves_the_prediction(fitted):
    once, twice = (compare(fitted, task(fitted.calls.records[0], factor=f)) for f in (1.0, 2.0))
    assert twice.measured == pytest.approx(2 * once.measured)
    assert twice.predicted == once.predicted
    assert (twice.inside, twice.verdict) == (None, "outside 95 %")


def test_wrong_answers_are_paid_for(fitted):
    few, many = (compare(fitted, task(fitted.calls.records[0], right=n)).predicted.value for n in (10, 20))
    assert few == pytest.approx(2 * many)


def test_a_slow_core_makes_slow_answers(fitted):
    record, probe = task(fitted.calls.records[0]), 1e-4
    known = FitResult(replace(fitted.fitted, best_probe=(probe, probe)), fitted.calls)
    quick, slow = (record.model_copy(update={"questions": tuple(
        q.model_copy(update={"core_probe": s * probe}) for q in record.questions)}) for s in (1.0, 1.5))
    powers = {c.name: c.value for c in fitted.constants()}
    ratio = compare(known, slow).predicted.value / compare(known, quick).predicted.value
    assert compare(known, record).reason == "the fit knows how fast its core was, the answers do not (this engine probes no core)"
    assert ratio == pytest.approx(1.5 ** (powers["core_exponent"] + powers["memory_exponent"]), rel=0.1) and ratio > 1.1


@pytest.mark.parametrize(("changes", "reason"), [
    ({"right": 0}, "no answer is correct"),
    ({"scenario": {"name": "x/facts", "model": {"name": "x"}, "task": {"name": "facts"}}},
     "the record does not say what the model consists of"),
    ({"weights": "q8_0"}, "the fit has seen no matrix in q8_0"),
    ({"provenance": "measured"}, "answers are measured, the fit's calls are modelled"),
])
def test_what_cannot_be_predicted_is_unknown_with_a_reason(fitted, changes, reason):
    found = compare(fitted, task(fitted.calls.records[0], **changes))
    assert (found.predicted, found.inside, found.reason) == (None, None, reason)
    assert found.verdict == f"unknown: {reason}"


@pytest.mark.parametrize(("change", "reason"), [
    ({"prompt": None}, "the engine counted no prompt tokens"),
    ({"cpu_time": None}, "answers are timed in s, the fit by the cpu clock"),
])
def test_what_an_engine_does_not_say(fitted, change, reason):
    record = task(fitted.calls.records[0])
    record = record.model_copy(update={"questions": tuple(q.model_copy(update=change) for q in record.questions)})
    assert compare(fitted, record).reason == reason


def test_no_interval_where_nothing_was_held_out(path):
    records = [r for r in read_records(path) if r.campaign.role == "fit"]
    fitted = js.fit(records)
    found = compare(fitted, task(records[0]))
    assert found.predicted.value == pytest.approx(found.measured, rel=0.1) and found.predicted.intervals == {}
    assert found.verdict == "unknown: no call was held out, so that nothing says how wrong the fit is"
    assert plain(found)["predicted_80"] is None


def test_a_failed_request_takes_no_call_and_the_last_run_counts(fitted):
    record = task(fitted.calls.records[0])
    failed = record.questions[0].model_copy(update={"prompt": None, "failed": True, "time": 0.0, "cpu_time": 0.0})
    again = record.model_copy(update={"questions": (failed, *record.questions[1:])})
    (found,) = answered(fitted, [record, again])
    assert found.predicted.value < compare(fitted, record).predicted.value
    assert np.isfinite(found.predicted.value)


def test_command_and_report(path, fitted, tmp_path, capsys):
    copy = tmp_path / "r.jsonl"
    copy.write_bytes(path.read_bytes())
    with RecordFile(copy) as file:
        file.append(task(fitted.calls.records[0]))
        file.append(task(fitted.calls.records[0], right=0, scenario={
            **task(fitted.calls.records[0]).scenario, "name": "s150/words", "task": {"name": "words"}}))
    arguments = ["validate", "local", "--no-measuring", "--records", str(copy), "--folder", str(tmp_path)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "inside 80 %" in said and "unknown: no answer is correct" in said and "20 of 30" in said
    page = (tmp_path / "report.html").read_text()
    assert "Seconds per correct answer" in page and "inside 80 %" in page
    assert main([*arguments, "-o", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["answers"]
    assert first["predicted_95"][0] < first["measured"] < first["predicted_95"][1] and first["inside"] == 0.8
    assert second["measured"] is None and second["predicted"] is None and second["reason"] == "no answer is correct"

"""Tasks: what counts as right, what it cost, and code that strangers wrote."""

import argparse
import json
import math

import pytest

from joulesim.cli import main
from joulesim.cli import measure as measure_command
from joulesim.cli import measure_task as measure_task_command
from joulesim.errors import InputError
from joulesim.measure import checkers
from joulesim.measure.answers import cost, measure_task
from joulesim.measure.meters.base import NoMeter
from joulesim.measure.records import read_records
from joulesim.measure.runtimes.base import Answer, Settings
from joulesim.measure.task import Item, correctness, facts, marked, per_correct, read_task, words


@pytest.mark.parametrize(("check", "text", "wanted", "right"), [
    ("exact", " Blue  sky\n", "blue sky", True), ("exact", "blue", ["red", "Blue"], True), ("exact", "blues", "blue", False),
    ("contains", "It is Au.", "au", True), ("contains", "Austria", "au", False),
    ("numeric", "3 + 4 = 7. The answer is 7.", 7, True), ("numeric", "7 or 8", 7, False), ("numeric", "", 7, False),
    ("choice", "(C)", "c", True), ("choice", "no letter", "c", False),
    ("regex", "id: 42", r"\d+", True), ("regex", "id", r"\d+", False),
])
def test_checks(check, text, wanted, right):
    assert checkers.CHECKS[check](text, wanted) is right


def sandboxed():
    try:
        return checkers.code("", "assert True")
    except InputError:
        return False


@pytest.mark.skipif(not sandboxed(), reason="this kernel gives no namespaces; code is refused here")
@pytest.mark.parametrize("attack", [
    "import socket; socket.create_connection(('127.0.0.1', {port}), 1)",
    "open('{victim}', 'w').write('x')", "open('{victim}', 'a').write('x')", "import os; os.remove('{victim}')",
    "import subprocess; subprocess.run(['sh', '-c', 'echo x > {victim}'], check=True)",
    "bytearray(1 << 30)", "while True: pass",
])
def test_code_cannot_reach_out(attack, tmp_path, monkeypatch):
    import socket

    monkeypatch.setattr(checkers, "CODE_TIME", 1.0)
    victim = tmp_path / "victim"
    victim.write_text("safe")
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = attack.format(victim=victim, port=server.getsockname()[1])
        assert checkers.code(program, "") is False
    assert victim.read_text() == "safe"


@pytest.mark.skipif(not sandboxed(), reason="this kernel gives no namespaces; code is refused here")
def test_code_that_passes_its_tests():
    assert checkers.code("Here:\n```python\ndef f(x):\n    return x + 1\n```\n", "assert f(1) == 2")
    assert not checkers.code("def f(x):\n    return x", "assert f(1) == 2")


def test_code_needs_leave(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"prompt": "p", "answer": "assert f()", "kind": "code"}))
    with pytest.raises(InputError, match="t.jsonl:1: its answers are code .* --allow-code-execution runs it"):
        read_task(path)
    assert read_task(path, allow_code=True)[0].kind == "code"


def test_every_attempt_is_paid_for():
    assert per_correct([10.0, 100.0], [True, False]).value == 110.0
    found = per_correct([1.0] * 30, [True] * 20 + [False] * 10)
    assert found.low < found.value == 1.5 < found.high


def test_no_correct_answer_is_a_bound_and_no_number():
    found = per_correct([2.0] * 30, [False] * 30)
    assert found.value is None and found.high is None
    assert found.bound == pytest.approx(2.0 / (1 - 0.05 ** (1 / 30)))


def test_interval_covers_the_truth():
    import random

    chance, hits = random.Random(3), 0
    for trial in range(60):
        right = [chance.random() < 0.6 for _ in range(80)]
        costs = [chance.expovariate(1.0) + (0 if ok else 1.0) for ok in right]
        found = per_correct(costs, right, level=0.9, seed=trial)
        hits += found.low <= 1.4 / 0.6 <= (found.high or math.inf)
    assert 0.75 <= hits / 60 <= 1.0


def test_failed_empty_and_truncated_answers_count():
    items = facts()[:4]
    answers = [Answer(text=" Paris"), Answer(text="  "), Answer(finish="failed", failure="HTTP 500"),
               Answer(text="Berlin", finish="length")]
    right = marked(items, answers)
    assert right == [True, False, False, True]
    counts = correctness(right, answers)
    assert (counts.correct, counts.attempted, counts.empty, counts.failed, counts.truncated) == (2, 4, 1, 1, 1)


def test_an_answer_cut_while_thinking_is_wrong():
    items = facts()[:2]
    answers = [Answer(text="<think>Paris or", finish="length"), Answer(text="<think>Paris?</think> Tokyo")]
    assert marked(items, answers) == [False, True]


def test_shipped_tasks_and_foreign_samples(tmp_path):
    assert len(facts()) == len(words()) == 30
    assert words() == words()
    path = tmp_path / "t.jsonl"
    rows = [{"arguments": {"gen_args_0": {"arg_0": "2+2="}}, "target": "4"}, {"arguments": [["3+3=", {}]], "target": "6"},
            {"input": [{"role": "user", "content": "hi"}], "target": "hello"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [(i.prompt, i.answer) for i in read_task(path)] == [("2+2=", "4"), ("3+3=", "6"), ("hi", "hello")]


def test_faults_of_a_task_come_together(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "p"}\nnot json\n{"prompt": "p", "answer": 1, "kind": "exct"}\n')
    with pytest.raises(InputError) as caught:
        read_task(path)
    assert [fault.where[-1] for fault in caught.value.faults] == ["1", "2", "3"]
    assert "Did you mean exact?" in str(caught.value)


def test_command(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "Paris", "answer": "Paris"}\n{"prompt": "Rome", "answer": "Paris"}\n')
    records = tmp_path / "r.jsonl"
    assert main(["measure", "--task", str(path), "--runtime", "fake", "--records", str(records), "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert (row["correct"], row["attempted"], row["unit"]) == (1, 2, "CPU s")
    assert row["per_correct"] == pytest.approx(0.2)
    record = json.loads(records.read_text())
    assert record["energy"] is None and record["provenance"] == "modelled" and record["correctness"]["correct"] == 1


def test_a_record_keeps_every_question():
    items = [Item("Paris", "Paris", "exact", 4), Item("Rome", "Paris", "exact", 4)]
    record = measure_task("fake", Settings(), NoMeter(), "m", "m", "t", items)
    assert [(q.correct, q.prompt, q.output, q.cpu_time, q.failed) for q in record.questions] == [
        (True, 5, 3, 0.1, False), (False, 4, 3, 0.1, False)]
    assert all(q.core_probe is None for q in record.questions) and record.state.core_probe is None  # the stand-in probes none
    assert cost(record).per_correct == per_correct([0.1, 0.1], [True, False])
    assert cost(record).joules == "Joules are unknown: no-meter: no energy meter answers on this machine. Costs are CPU s."
    assert record == type(record).model_validate(record.plain())


def test_no_question_is_asked_after_the_time_is_up():
    record = measure_task("fake", Settings(threads=2), NoMeter(), "m", "m", "t", [Item("a", "a", "exact", 4)] * 9, budget=-1.0)
    assert record.correctness.attempted == 1 and record.scenario["task"]["questions"] == 9


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    measure_command.arguments(parser)
    return parser.parse_args(arguments)


def test_a_model_that_does_not_load_is_one_line(tmp_path, monkeypatch, capsys):
    arguments = ["measure", "--task", "facts", "--runtime", "fake", "--model", "m=refuse.gguf", "--records", str(tmp_path / "r")]
    assert main(arguments) == 2
    assert capsys.readouterr().err == "joulesim: runtime fake, m: open: ValueError: this model does not load\n"
    monkeypatch.setattr(measure_task_command, "_models", lambda options, engine: {"m": "refuse"})
    measure_task_command.run_missing(parsed("--runtime", "fake", "--gemma", "here"), tmp_path / "r", budget=None)
    assert "m did not answer facts: open: ValueError: this model does not load" in capsys.readouterr().err


def test_tasks_that_a_real_model_has_not_answered_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure_task_command, "_models", lambda options, engine: {"m": "m"})
    options, path = parsed("--runtime", "fake", "--gemma", "here"), tmp_path / "r.jsonl"
    assert measure_task_command.missing(options, path) == [("facts", "m"), ("words", "m")]
    measure_task_command.run_missing(options, path, budget=0.0)
    assert not read_records(path)
    measure_task_command.run_missing(options, path, budget=None)
    assert [r.scenario["name"] for r in read_records(path)] == ["m/facts", "m/words"]
    assert "joulesim: m answers facts" in capsys.readouterr().err
    assert measure_task_command.missing(options, path) == []
    measure_task_command.run_missing(options, path, budget=None)
    assert len(read_records(path)) == 2

"""Tables of one's own: every row predicted or refused with its reason, and nothing measured is read."""

import csv
import json
from pathlib import Path

import pytest

from joulesim.cli import main
from joulesim.errors import InputError
from joulesim.validate import published, tables

SHARED = Path(__file__).parents[3] / "shared" / "published" / "mlenergy_v3.csv"
ROW = {
    "source_url": "https://example.org/table", "hardware": "H100", "hardware_variant": "SXM", "num_gpus": "1",
    "parallelism": "TP1 DP1 EP1", "model": "meta-llama/Llama-3.1-8B-Instruct", "weight_format": "bfloat16",
    "runtime": "vLLM", "batch_concurrency": "63.9", "prompt_tokens": "670", "output_tokens": "395.6",
    "phase": "serving steady state", "throughput_tok_s": "5147", "itl_ms": "11.5", "ttft_ms": "", "power_w": "610.3",
    "energy_j_per_token": "0.11857", "energy_boundary": "chip (NVML)", "accuracy_task": "", "accuracy": "",
    "accuracy_n": "", "notes": "task=lm-arena-chat; max_num_seqs=64",
}
MEASURED = ("throughput_tok_s", "itl_ms", "ttft_ms", "power_w", "energy_j_per_token")


def table(tmp_path, *changes, drop=(), name="mine.csv"):
    """A CSV with one row a change of :data:`ROW`."""
    path = tmp_path / name
    columns = [c for c in ROW if c not in drop]
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(ROW | change for change in changes)
    return path


def reasons(tmp_path, *changes):
    return [r.reason for r in published.predict_file(table(tmp_path, *changes))]


def test_a_row_of_the_leaderboard_is_predicted(tmp_path):
    (row,) = published.predict_file(table(tmp_path, {}))
    assert row.reason == ""
    assert row.low < row.energy < row.high
    assert row.energy == pytest.approx(0.1186, rel=0.25)  # ML.ENERGY v3, H100, 64 sequences
    assert row.power <= 700


def test_blank_measured_columns_change_nothing(tmp_path):
    changes = [{"batch_concurrency": "8", "notes": "task=gpqa; max_num_seqs=8"}, {}, {"hardware": "B200"}]
    blank = [change | dict.fromkeys(MEASURED, "") for change in changes]
    with_numbers = published.predict_file(table(tmp_path, *changes))
    without = published.predict_file(table(tmp_path, *blank))
    assert [r.cells() for r in with_numbers] == [r.cells() for r in without]


def test_blank_measured_columns_change_nothing_that_json_predicts(tmp_path, capsys):
    changes = [{}, {"hardware": "X9000"}, {"accuracy": "0.5", "energy_boundary": "wall"}]
    found = []
    for blank in ({}, dict.fromkeys(MEASURED, "")):
        assert main(["validate", "published", str(table(tmp_path, *(change | blank for change in changes))), "-o", "json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    measured, unmeasured = found
    assert measured["predictions"] == unmeasured["predictions"] and len(measured["predictions"]) == 3
    assert (measured["energy"]["count"], unmeasured["energy"]["count"]) == (1, 0)


def test_missing_measured_columns_change_nothing(tmp_path):
    whole = published.predict_file(table(tmp_path, {}))
    bare = published.predict_file(table(tmp_path, {}, drop=MEASURED, name="bare.csv"))
    assert [r.cells() for r in whole] == [r.cells() for r in bare]


@pytest.mark.skipif(not SHARED.is_file(), reason="the published tables are not here")
def test_blank_measured_columns_change_nothing_in_the_whole_table(tmp_path):
    rows = list(csv.DictReader(SHARED.open()))
    path = tmp_path / SHARED.name
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0])
        writer.writeheader()
        writer.writerows(row | dict.fromkeys(MEASURED, "") for row in rows)
    lengths = SHARED.with_name("mlenergy_v3_output_lengths.csv")
    (tmp_path / lengths.name).write_text(lengths.read_text())
    ours = [r.cells() for r in published.predict_file(SHARED)]
    assert ours == [r.cells() for r in published.predict_file(path)]


def test_accuracy_gives_energy_per_correct_answer(tmp_path):
    (row,) = published.predict_file(table(tmp_path, {"accuracy_task": "gpqa", "accuracy": "0.5", "accuracy_n": "198"}))
    assert row.energy_per_correct == pytest.approx(row.energy * 395.6 / 0.5)
    (without,) = published.predict_file(table(tmp_path, {"accuracy_task": "gpqa"}))
    assert without.energy_per_correct is None
    assert without.reason == "energy per correct answer: the row has no accuracy"


@pytest.mark.parametrize(("change", "said"), [
    ({"accuracy": "0"}, "energy per correct answer: no answer is right"),
    ({"accuracy": "0.0", "accuracy_task": "gpqa", "accuracy_n": "198"}, "energy per correct answer: no answer is right"),
    ({"accuracy": "", "accuracy_task": "gpqa"}, "energy per correct answer: the row has no accuracy"),
    ({"accuracy": "0.5", "phase": "prefill"}, "energy per correct answer: a prefill gives no answer"),
    ({"accuracy": ""}, ""),
])
def test_no_energy_per_correct_answer_has_its_reason(tmp_path, change, said):
    (row,) = published.predict_file(table(tmp_path, change))
    assert row.energy is not None and row.energy_per_correct is None
    assert row.reason == said
    assert row.point.accuracy == (float(change["accuracy"]) if change["accuracy"] else None)


@pytest.mark.parametrize(("change", "said"), [
    ({"power_w": "-5"}, "line 2: power_w: expected 0.001 to 1e+09, got '-5'"),
    ({"power_w": "0"}, "line 2: power_w: expected more than 0, got 0; leave it empty if it is unknown"),
    ({"output_tokens": "0"}, "line 2: output_tokens: expected at least one token, got 0"),
    ({"energy_j_per_token": "118.57"}, "line 2: energy_j_per_token: looks like mJ: 118.57 against 0.1186 J"),
    ({"energy_j_per_token": "0.00011857"}, "looks like kJ: 0.00011857 against 0.1186 J"),
    ({"energy_boundary": ""}, "line 2: energy_boundary: expected one of"),
    ({"throughput_tok_s": "fast"}, "line 2: throughput_tok_s: expected a number, got 'fast'"),
    ({"model": "meta-llama/Llama-3.1-8B-Instrct"}, "Did you mean llama-3.1-8b-instruct?"),
    ({"model": "acme/Mystery-9B"}, "unknown model 'acme/Mystery-9B'"),
    ({"hardware": "X9000"}, "unknown hardware 'X9000'; give its profile with --hardware-file"),
    ({"runtime": "sorcery"}, "unknown runtime 'sorcery'"),
    ({"batch_concurrency": "", "notes": ""}, "line 2: batch_concurrency: expected a number, got nothing"),
    ({"parallelism": "TP1 DP1 EP1 PP2", "num_gpus": "2"}, "expected no pipeline"),
    ({"num_gpus": "3", "parallelism": "TP2"}, "expected degrees of 3 devices"),
    ({"parallelism": "TP0"}, "line 2: parallelism: expected 1 to 1e+06, got 'TP0'"),
    ({"num_gpus": "2", "parallelism": "DP4"}, "expected degrees of 2 devices, got 'DP4'"),
    ({"num_gpus": "2.5"}, "line 2: num_gpus: expected a whole number of devices, got 2.5"),
    ({"num_gpus": "2", "parallelism": "layer split"}, "expected degrees such as TP2 EP1, got 'layer split'"),
    ({"num_gpus": "2", "parallelism": "TP over both"}, "expected degrees such as TP2 EP1, got 'TP over both'"),
    ({"notes": "max_num_seqs=auto"}, "line 2: notes: max_num_seqs: expected a number, got 'auto'"),
    ({"notes": "task=gpqa; max_num_seqs=inf"}, "line 2: notes: max_num_seqs: expected 1 to 1e+07, got 'inf'"),
    ({"prompt_tokens": "", "notes": ""}, "line 2: prompt_tokens: expected a number, got nothing"),
    ({"phase": "prefill", "prompt_tokens": "0"}, "line 2: prompt_tokens: expected at least one token, got 0"),
    ({"phase": "resting"}, "line 2: phase: expected one of serving, static batch, request, decode, prefill, got 'resting'"),
])
def test_a_bad_row_is_refused_with_its_reason_and_the_rest_is_used(tmp_path, change, said):
    found = published.predict_file(table(tmp_path, change, {}))
    assert said in found[0].reason
    assert found[0].energy is None
    assert found[1].energy is not None


def test_the_same_row_twice_is_refused_once(tmp_path):
    first, second = reasons(tmp_path, {}, {})
    assert first == ""
    assert "is the same row as line 2; remove one of them" in second


@pytest.mark.parametrize(("text", "said"), [
    ("", "expected a table, got an empty file"),
    ("hardware,model\nH100,x\n", "got no runtime"),
    ("hardware,hardware\nH100,x\n", "the column 'hardware' stands twice"),
    ("hardware,power [W]\nH100,5\n", "the column 'power [W]' has a unit in its header"),
    (",".join(ROW) + "\nH100,x\n", "line 2: expected 22 cells, got 2"),
    (";".join(ROW) + "\nH100;x\n", "expected commas between cells, got ';'"),
])
def test_a_file_that_is_no_such_table_is_refused(tmp_path, text, said):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        tables.read(path)
    assert said in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert main(["validate", "published", str(tmp_path / "none.csv")]) == 2
    assert "none.csv: cannot be read" in capsys.readouterr().err


def test_command_prints_csv_and_json(tmp_path, capsys):
    path = str(table(tmp_path, {}, {"hardware": "X9000"}))
    assert main(["validate", "published", path, "-o", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert list(rows[0]) == list(published.COLUMNS)
    assert float(rows[0]["energy_low"]) < float(rows[0]["energy_j_per_token"]) < float(rows[0]["energy_high"])
    assert rows[1]["energy_j_per_token"] == "" and "unknown hardware" in rows[1]["reason"]
    assert main(["validate", "published", path, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predicted"] == 1 and found["energy"]["count"] == 1
    assert found["refused"][0]["row"] == 2 and found["rows"] == 2
    for said, printed in zip(found["predictions"], rows, strict=True):
        assert list(said) == list(published.COLUMNS)
        assert {name: "" if value is None else str(value) for name, value in said.items()} == printed
    first, second = found["predictions"]
    assert first["energy_low"] < first["energy_j_per_token"] < first["energy_high"]
    assert first["energy_j_per_correct"] is None and first["reason"] is None
    assert second["energy_j_per_token"] is None and "unknown hardware" in second["reason"]


def test_a_device_that_is_not_shipped_comes_from_its_file(tmp_path, capsys):
    profile = tmp_path / "x9000.yaml"
    profile.write_text(
        "name: x9000\nvendor: NVIDIA\nkind: gpu\nmemory_kind: HBM3\nmemory_capacity: 96 GiB\nmemory_bandwidth: 4 TB/s\n"
        "compute_rate: {fp32: 60 TFLOP/s, fp16: 1000 TFLOP/s, fp8: 2000 TFLOP/s}\npower_limit: 800 W\n"
        "idle_power: {empty: 80 W}\n"
    )
    path = table(tmp_path, {"hardware": "X9000"}, {})
    (new, old) = published.predict_file(path, {"X9000": str(profile)})
    assert new.energy is not None and new.reason == ""
    assert new.high / new.low > old.high / old.low  # a device never seen is less certain
    assert main(["validate", "published", str(path), "--hardware-file", f"X9000={profile}", "-o", "csv"]) == 0
    assert main(["validate", "published", str(path), "--hardware-file", "X9000=nowhere.yaml"]) == 2
    assert "expected NAME=PROFILE with a profile file" in capsys.readouterr().err


def test_a_ragged_row_is_refused_and_blank_lines_are_none(tmp_path):
    path = table(tmp_path, {}, {"batch_concurrency": "32"})
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, rest[0] + ",", "   ", rest[1]]) + "\n")
    ragged, good = published.predict_file(path)
    assert "line 2: expected 22 cells, got 23; quote cells with commas" in ragged.reason
    assert good.energy is not None


@pytest.mark.parametrize("text", ["TP2", "tp2", "TP=2", "TP 2"])
def test_degrees_are_read_however_they_are_written(tmp_path, text):
    two, plain = published.predict_file(table(tmp_path, {"num_gpus": "2", "parallelism": text}, {}))
    assert two.point.tensor == 2 and plain.point.tensor == 1


def test_lengths_beside_a_table_that_make_no_sense_are_named(tmp_path):
    path = table(tmp_path, {})
    path.with_name("mine_output_lengths.csv").write_text("model,mean\nx,much\n")
    with pytest.raises(InputError, match=r"mine_output_lengths.csv: line 2: expected model, task, .* mend or remove the file"):
        tables.read(path)


def test_what_does_not_fit_is_said_beside_its_number(tmp_path):
    heavy, crowded = published.predict_file(table(
        tmp_path, {"model": "meta-llama/Llama-3.1-70B-Instruct"}, {"batch_concurrency": "100000", "notes": ""}))
    assert "does not fit: weights of 141 GB a device" in heavy.reason and heavy.energy
    assert "does not fit: 100000 sequences where" in crowded.reason


def test_nothing_predicted_is_exit_status_2(tmp_path, capsys):
    assert main(["validate", "published", str(table(tmp_path, {"hardware": "X9000"}))]) == 2
    assert "0 of 1 rows predicted" in capsys.readouterr().out


def test_options_that_would_do_nothing_are_refused(tmp_path, capsys):
    path = str(table(tmp_path, {}))
    for rest in ([path], ["--table", "mlenergy_v3"], ["--holdout", "table"], ["--runtime", "all"]):
        assert main(["validate", "published", *rest, "--plot", str(tmp_path / "a.png")]) == 2
        assert "--plot: expected --holdout of one runtime" in capsys.readouterr().err
    assert main(["validate", "published", path, "--table", "mlenergy_v3"]) == 2
    assert "--table: expected a file or a shipped table" in capsys.readouterr().err
    given = {"--holdout": ["none", "model", "table"], "--runtime": ["vllm", "all", "nonsense"], "--ship": [None]}
    for rest, name in (([path], path), (["--table", "mlenergy_v3"], "mlenergy_v3")):
        for option, values in given.items():
            for value in values:
                assert main(["validate", "published", *rest, option, *filter(None, [value])]) == 2
                assert capsys.readouterr().err == (f"joulesim: {option}: expected no table beside it, got {name}; a table is "
                                                   "predicted with the shipped constants, nothing is fitted\n")
    for rest in (["--table", "mlenergy_v3"], ["--holdout", "model"], []):
        assert main(["validate", "published", *rest, "--hardware-file", "X=x.yaml"]) == 2
        assert "--hardware-file: expected a table of your own, whose devices it describes, got none" in capsys.readouterr().err
    assert main(["validate", "published", "--runtime", "vlm"]) == 2
    assert "--runtime: no fit of 'vlm'" in capsys.readouterr().err

"""``joulesim sweep``, ``frontier`` and ``optimise``."""

import csv
import io
import json

import pytest

import joulesim as js
from joulesim.cli import main

xarray = pytest.importorskip("xarray")

NAME = "qwen2.5-7b-q4_0-laptop-b8"
OVER = ["--over", "hardware.memory_bandwidth=500GB/s:1TB/s:3", "--over", "serving.batch=1,8"]


def run(capsys, *arguments):
    status = main(list(arguments))
    caught = capsys.readouterr()
    return status, caught.out, caught.err


def test_a_table_sorted_by_what_is_minimised(capsys):
    status, out, _ = run(capsys, "sweep", NAME, *OVER, "--minimise", "energy_per_correct_answer", "--subject-to", "ttft<=0.5 s")
    rows = out.splitlines()
    assert status == 0
    assert rows[0].split("|")[1].strip() == "hardware.memory_bandwidth"
    assert len(rows) == 2 + 6
    assert "J/answer" in rows[2]


def test_csv_and_json_hold_every_number(capsys):
    _, out, _ = run(capsys, "sweep", NAME, *OVER, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6
    p = js.predict(js.load_scenario(NAME).replace({"hardware.memory_bandwidth": 1e12, "serving.batch": 8}))
    row = next(r for r in rows if float(r["serving.batch"]) == 8 and float(r["hardware.memory_bandwidth"]) == 1e12)
    assert float(row["tpot"]) == pytest.approx(p.tpot, rel=1e-12)
    _, out, _ = run(capsys, "sweep", NAME, *OVER, "-o", "json")
    data = json.loads(out)
    assert len(data["points"]) == 6
    assert data["units"]["tpot"] == "s"
    assert data["joulesim_version"] == js.__version__


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_files(capsys, tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    status, out, _ = run(capsys, "sweep", NAME, *OVER, "-o", str(path))
    assert status == 0
    assert "3 hardware.memory_bandwidth x 2 serving.batch" in out
    with xarray.open_dataset(path, chunks=None, **({"engine": "zarr", "consolidated": False} if suffix == "zarr" else {})) as found:
        assert found.tpot.shape == (3, 2)


@pytest.mark.parametrize("over", [OVER[:2], OVER, [*OVER, "--over", "weights=q4_0,q8_0"], ["--over", "weights=q4_0,q8_0"]])
def test_pictures(capsys, tmp_path, over):
    pytest.importorskip("matplotlib")
    status, *_ = run(capsys, "sweep", NAME, *over, "--plot", str(tmp_path / "p.png"))
    assert status == 0
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_designs_draws_and_fields_that_change_together(capsys):
    _, out, _ = run(capsys, "sweep", NAME, "--over", "serving.batch=1:16", "--over", "power_cap=60W:120W", "--design",
                    "sobol:8", "-o", "csv")
    assert len(out.splitlines()) == 9
    _, out, _ = run(capsys, "sweep", NAME, "--over", "serving.batch=1,2", "--draws", "3", "-o", "csv")
    assert len(out.splitlines()) == 7
    _, out, _ = run(capsys, "sweep", NAME, "--over", "serving.batch=1,2 + power_cap=60W,90W", "-o", "csv")
    assert len(out.splitlines()) == 3


def test_whole_numbers_of_a_range_are_whole(capsys):
    _, out, _ = run(capsys, "sweep", NAME, "--over", "serving.batch=1:100:7:log", "-o", "csv", "--variables", "tpot")
    assert [row.split(",")[0] for row in out.splitlines()[1:]] == ["1.0", "2.0", "5.0", "10.0", "22.0", "46.0", "100.0"]


def test_frontier_and_optimise(capsys, tmp_path):
    status, out, _ = run(capsys, "frontier", NAME, "--over", "serving.batch=1,2,4,8", "--over", "weights=q4_0,q8_0",
                         "--plot", str(tmp_path / "f.png"))
    assert status == 0
    assert "of 8 points: no other is better in energy_per_answer and ttft" in out
    status, out, _ = run(capsys, "optimise", NAME, "--over", "weights=q4_0,q8_0", "--over", "power_cap=60W:120W")
    assert status == 0
    assert "Runner-up:" in out
    assert "power_cap is at its lowest, 60 W" in out
    status, out, _ = run(capsys, "optimise", NAME, "--over", "weights=q4_0,q8_0", "-o", "json")
    assert json.loads(out)["best"]["fields"] == {"weights": "q4_0"}


@pytest.mark.parametrize(("arguments", "message"), [
    (["--over", "serving.batch"], "--over: expected FIELD=VALUES, got 'serving.batch'"),
    ([], "--over: expected a field to sweep, got none"),
    (["--over", "serving.batch=1:8"], "serving.batch: expected low:high:n or low:high:n:log, got '1:8'"),
    (["--over", "serving.batch=1:8:0"], "serving.batch: expected at least one value, got '0' of them"),
    (["--over", "serving.batch="], "serving.batch: expected at least one value, got an empty range"),
    (["--over", "serving.batch=0:8:3:log"], "serving.batch: expected a range above 0 for even ratios, got '0:8:3:log'"),
    (["--over", "hardware.memory_bandwidth=1,2"], "hardware.memory_bandwidth: expected byte/second, got the bare number '1'"),
    (["--over", "hardware.memory_bandwidth=1TB/s:500W:5"], "hardware.memory_bandwidth: expected byte/second, got '500W'"),
    (["--over", "hardware.memory_bandwith=1TB/s"], "hardware.memory_bandwith: no such field. Did you mean memory_bandwidth?"),
    (["--over", "serving.batch=1,2", "--over", "serving.batch=3"], "serving.batch: expected each field once, got it twice"),
    (["--over", "serving.batch=1:8", "--design", "sobul:8"], "--design: expected sobol:N or random:N, got 'sobul:8'"),
    (["--over", "serving.batch=1,2", "-o", "out.xls"], "-o: expected table, json, csv, md or a file that ends in"),
    (["--over", "serving.batch=1,2", "--rows", "0"], "--rows: expected a whole number of at least 1, got '0'"),
    (["--over", "serving.batch=1,2", "--minimise", "energy"], "minimise: no predicted quantity 'energy'"),
    (["--over", "serving.batch=1,2", "--memory", "2", "-o", "out.zarr"], "memory: expected byte, got the bare number '2'"),
    (["--over", "serving.batch=1,2", "--subject-to", "ttft<=1 ns"], "ttft<=1 ns excludes 2"),
])
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    status, out, err = run(capsys, "sweep", NAME, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1

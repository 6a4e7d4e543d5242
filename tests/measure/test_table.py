"""Any CSV with a map of its columns, and joining it with a power log."""

import pytest

from joulesim.errors import InputError
from joulesim.measure.importers.join import with_power
from joulesim.measure.importers.nvidia_smi import read_nvidia_smi
from joulesim.measure.importers.table import read_table
from joulesim.measure.power_log import PowerLog

from .points import measured, unmetered
from .reference import published

COLUMNS = {
    "scenario.model": "model",
    "scenario.serving.batch": "batch",
    "power": "power_w",
    "throughput.output": "tok_s",
    "ratios.energy_per_output_token": "energy_j_per_token",
}
HEADER = "model,batch,power_w,tok_s,energy_j_per_token"
BOARD = {"boundary": "board"}


@pytest.fixture
def table(tmp_path):
    """Write a table and read it."""

    def write_and_read(*lines, columns=COLUMNS, fixed=BOARD, **more):
        path = tmp_path / "table.csv"
        path.write_text("\n".join(lines) + "\n")
        return read_table(path, columns, fixed, **more)

    return write_and_read


def said(records):
    return [str(fault).split("table.csv")[1] for fault in records.faults]


def test_published_row(table):
    """Case energy-01: Llama-3.1-8B on an H100 at 64 sequences."""
    power, rate = published("energy-01", "power"), published("energy-01", "throughput")
    per_token = published("energy-01", "energy per output token")
    (record,) = table(
        HEADER, f"Llama-3.1-8B,64,{power},{rate},{per_token}", source="https://ml.energy"
    ).all_or_error()
    assert record.scenario == {"model": "Llama-3.1-8B", "serving": {"batch": 64}}
    assert record.energy_per_output_token == per_token
    assert (record.energy_reason.code, record.provenance) == ("not-published", "published")
    assert (record.source.ref, record.source.line) == ("https://ml.energy", 2)


@pytest.mark.parametrize(
    ("header", "unit", "cell", "joules"),
    [
        ("e_j", "", "360", 360.0),
        ("e_wh", "", "0.1", 360.0),
        ("e [kJ]", "", "0.36", 360.0),
        ("e (mWh)", "", "100", 360.0),
        ("e", "mJ", "360000", 360.0),
        ("e", "", "0.1 Wh", 360.0),
    ],
)
def test_unit_of_a_column(table, header, unit, cell, joules):
    columns = {"scenario.model": "model", "energy": (header, unit) if unit else header}
    (record,) = table(f"model,{header}", f"m,{cell}", columns=columns).all_or_error()
    assert record.energy == pytest.approx(joules)


def test_bare_number_without_a_unit(table):
    columns = {"scenario.model": "model", "energy": "e"}
    assert said(table("model,e", "m,360", columns=columns)) == [
        ":2: e: expected joule, got the bare number '360'; name the unit: columns={field: (column, unit)}"
    ]


def test_token_counts_need_no_unit(table):
    columns = {"scenario.model": "model", "tokens.output": "n", "tokens.requests": "r"}
    (record,) = table("model,n,r", "m,1000,10", columns=columns).all_or_error()
    assert (record.tokens.output, record.tokens.requests) == (1000.0, 10)


@pytest.mark.parametrize(
    ("per_token", "unit"),
    [
        (118.6, "mJ"),
        (118_600, "uJ"),
        (0.0001186, "kJ"),
        (3.294e-5, "Wh"),
        (3.294e-8, "kWh"),
    ],
)
def test_energy_in_the_wrong_unit_is_reported_and_not_repaired(table, per_token, unit):
    records = table(HEADER, f"m,64,610.3,5147,{per_token:g}", "m,8,100,100,1")
    assert len(records) == 1
    assert said(records) == [
        f":2: ratios.energy_per_output_token: {per_token:g} looks like {unit}; power and time give 0.1186 J; "
        "correct the unit of the column"
    ]


def test_subtracted_idle_power_is_no_slip_of_units(table):
    """joulebench_a100: J/token above idle, 0.5646, beside a gross power that gives 1.94 J/token."""
    assert table(HEADER, "m,1,97.0,50.0,0.5646").all_or_error()


def test_rows_that_differ_in_another_column_are_repeats(table):
    assert len(table(HEADER + ",trial", "m,8,100,100,1,1", "m,8,100,100,1,2").all_or_error()) == 2


def test_energy_of_a_run_in_the_wrong_unit(table):
    columns = {"energy": ("e", "J"), "power": ("p", "W"), "time": ("t", "s")}
    assert (
        ":2: energy: 500000 looks like mJ; power and time give 500 J"
        in said(table("e,p,t", "500000,100,5", columns=columns))[0]
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("m,64,-610.3,5147,0.1", ":2: power_w: expected at least 0, got -610.3 W"),
        (
            "m,64,610.3,0,0.1",
            ":2: throughput.output: expected more than 0, got 0; leave it empty if it is unknown",
        ),
        (
            "m,64,610.3",
            ":2: expected 5 cells as in the header, got 3; the row is left out, cells are never shifted",
        ),
        ("m,64,610.3 J,5147,0.1", ":2: power_w: expected watt, got '610.3 J' (energy)"),
        ("m,64,lots,5147,0.1", ":2: power_w: expected watt, got 'lots'"),
        ("other,8,100,100,1", ":2: unknown model 'other'"),
        ("n,8,100,100,1", ":3: is the same as line 2; the row is left out"),
    ],
)
def test_rows_are_refused_one_by_one(table, row, message):
    lines = ["n,8,100,100,1", row] if row.startswith("n,") else [row, "n,8,100,100,1"]
    records = table(HEADER, *lines, known={"scenario.model": {"m", "n"}})
    assert len(records) == 1
    (fault,) = said(records)
    assert fault.startswith(message)


def test_boundary_must_be_there(table):
    records = table(HEADER, "m,64,610.3,5147,0.1186", fixed={})
    assert said(records) == [
        ":2: boundary: expected chip, board, module, host or wall, got nothing; say what the joules include"
    ]
    columns = {**COLUMNS, "boundary": "where"}
    records = table(
        HEADER + ",where",
        "m,64,610.3,5147,0.1186,wall",
        "m,64,610.3,5147,0.1186,plug",
        columns=columns,
        fixed={},
    )
    assert records[0].boundary == "wall"
    assert said(records)[0].startswith(
        ":3: boundary: expected 'chip', 'board', 'module', 'host' or 'wall', got 'plug'"
    )


def test_empty_cells_are_unknown(table):
    (record,) = table(HEADER, "m,64,,5147,").all_or_error()
    assert (record.power, record.energy_per_output_token) == (None, None)
    assert record.energy_reason.code == "no-power-in-file"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"enrgy": "power_w"}, "no record field 'enrgy'. Did you mean energy"),
        ({"zzz": "power_w"}, "no record field 'zzz'; see joulesim.measure.importers.table.FIELDS"),
        ({"power": "power"}, "expected a column 'power' for power, there is none. Did you mean power_w"),
        ({"power": "nothing"}, "expected a column 'nothing' for power, there is none; there is model, batch"),
        ({"power": ("batch", "J")}, "column 'batch' for power: expected watt, got 'J'"),
        ({"power": ("batch", "furlong")}, "column 'batch' for power: expected watt, got 'furlong'"),
        ({"energy": "power_w"}, "column 'power_w' for energy: expected joule, got 'W'"),
    ],
)
def test_maps_that_do_not_fit(table, columns, message):
    with pytest.raises(InputError, match=message):
        table(HEADER, "m,64,1,1,1", columns=columns)


def test_rows_as_a_whole_are_checked_as_records(table):
    columns = {"energy": ("e", "J"), "power": ("p", "W"), "time": ("t", "s")}
    assert (
        "expected power times time (500 J), got 600 J"
        in said(table("e,p,t", "600,100,5", columns=columns))[0]
    )


RUNS = {
    "scenario.model": "model", "window.start": "start", "window.stop": "stop", "tokens.output": "tokens",
    "correctness.correct": "correct", "correctness.attempted": "attempted", "runtime.version": "version",
}  # fmt: skip


def test_throughput_log_joined_with_a_power_log(tmp_path, table):
    runs = table(
        "model,start,stop,tokens,correct,attempted,version",
        "m,2025/01/15 12:34:57,2025/01/15 12:38:17,20000,40,50,0.11",
        "m,2025/01/15 12:50:00,2025/01/15 12:55:00,20000,40,50,0.11",
        columns=RUNS,
        fixed={},
        provenance="measured",
        zone="UTC",
    )
    log = tmp_path / "smi.csv"
    samples = "".join(f"{1736944496 + t},0,300.0\n" for t in range(300))
    log.write_text("timestamp,index,power.draw.instant [W]\n" + samples)
    first, late = with_power(runs, read_nvidia_smi(log)).all_or_error()
    assert first.energy == pytest.approx(60_000.0)
    assert (first.power, first.boundary, first.time) == (pytest.approx(300.0), "board", 200.0)
    assert first.energy_per_output_token == pytest.approx(3.0)
    assert first.energy_per_correct_answer == pytest.approx(1500.0)
    assert (late.energy, late.energy_reason.code) == (None, "window-not-bracketed")


def test_stamps_need_a_zone(table):
    (fault,) = said(
        table(
            "start,stop",
            "2025/01/15 12:34:57,1736944597",
            fixed={},
            columns={"window.start": "start", "window.stop": "stop"},
        )
    )
    assert (
        fault
        == ":2: start: time stamp '2025/01/15 12:34:57' has no zone; say where with zone='Europe/Berlin'"
    )


LOG = PowerLog("log.csv", {"0": [0.0, 1, 2, 3, 4]}, {"0": [10.0] * 5}, "wall")


def test_stamps_of_two_clocks_are_not_subtracted():
    run = unmetered(window={"start": 1000.5, "stop": 1003.5})
    message = "record 1: runs on the clock 'monotonic' and log.csv on 'unix'; give clock_offset, the log's time minus"
    with pytest.raises(InputError, match=message):
        with_power([run], LOG)
    (joined,) = with_power([run], LOG, clock_offset=-1000.0)
    assert joined.energy == pytest.approx(30.0)
    assert joined.validity.verdict == "suspect"


def test_record_without_a_window_is_left_out():
    joined = with_power([unmetered()], LOG)
    assert len(joined) == 0
    assert str(joined.faults[0]) == (
        "record 1: expected a start and a stop, got neither; add window.start and window.stop"
    )


def test_a_second_boundary_stands_beside_the_first():
    run = measured(energy=20.0, time=3.0, window={"start": 0.5, "stop": 3.5, "clock": "unix"})
    (joined,) = with_power([run], LOG)
    assert (joined.energy, joined.boundary) == (20.0, "board")
    (wall,) = joined.other_readings
    assert (wall.energy, wall.meter.boundary) == (pytest.approx(30.0), "wall")

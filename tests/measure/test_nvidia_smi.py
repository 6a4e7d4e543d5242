"""nvidia-smi logs: columns by name, words for missing, units, zones, several GPUs."""

import pytest

from joulesim.errors import InputError, NotFoundError
from joulesim.measure.importers.nvidia_smi import read_nvidia_smi
from joulesim.measure.importers.text import is_missing

from .reference import published

T0 = 1736944496.0


@pytest.fixture
def log(tmp_path):
    """Write a log and read it."""

    def write_and_read(text, zone="UTC", **more):
        path = tmp_path / "smi.csv"
        path.write_text(text)
        return read_nvidia_smi(path, zone, **more)

    return write_and_read


def rows(header, *lines):
    return "\n".join([header, *lines]) + "\n"


def stamp(second):
    return f"2025/01/15 12:34:{56 + second:06.3f}" if second < 4 else f"2025/01/15 12:35:{second - 4:06.3f}"


@pytest.mark.parametrize(
    "cell",
    [
        "[N/A]",
        "N/A",
        "n/a",
        "[Not Supported]",
        "[Unknown Error]",
        "ERR!",
        "[GPU is lost]",
        "",
        "[Requested functionality has been deprecated]",
        "GPU is lost",
        "Not Supported",
    ],
)
def test_words_for_missing(cell):
    """Cases nvidia_smi-07 and -08: two spellings and their relatives, never 0."""
    assert is_missing(cell)


def test_numbers_are_not_missing():
    assert not is_missing("0") and not is_missing("0.00 W")


def test_units_in_header_or_cells(log):
    """Case nvidia_smi-05: units stand in the header, or in the cells unless ``nounits``."""
    in_cells = log(
        rows("timestamp, index, power.draw [W]", f"{stamp(0)}, 0, 39.32 W", f"{stamp(1)}, 0, 40.00 W")
    )
    no_units = log(rows("timestamp, index, power.draw [W]", f"{stamp(0)}, 0, 39.32", f"{stamp(1)}, 0, 40.00"))
    milli = log(rows("timestamp, index, power.draw [mW]", f"{stamp(0)}, 0, 39320", f"{stamp(1)}, 0, 40000"))
    assert in_cells.powers == no_units.powers == {"0": [published("nvidia_smi-01", "power now"), 40.0]}
    assert milli.powers["0"] == pytest.approx(no_units.powers["0"])
    assert no_units.times["0"] == [T0, T0 + 1]


def test_columns_are_found_by_name_whatever_stands_between(log):
    text = rows(
        "fan.speed [%], power.draw [W], x, name, timestamp, utilization.gpu [%]",
        f"[N/A], 11.17, 1, GB10, {stamp(0)}, 0 %",
    )
    assert log(text).powers == {"0": [published("nvidia_smi-10", "power now")]}


def test_instant_is_taken_before_average(log):
    """Case nvidia_smi-02: just after load 183.28 W on average and 119.88 W now."""
    now, average = (published("nvidia_smi-02", name) for name in ("power now", "average power"))
    header = "timestamp, index, power.draw.average [W], power.draw.instant [W], power.draw [W]"
    read = log(rows(header, f"{stamp(0)}, 0, {average}, {now}, {average}"))
    assert read.powers["0"] == [now]
    assert (read.field, read.averaged) == ("power.draw.instant", False)


@pytest.mark.parametrize("state", ["idle", "load"])
def test_memory_power_is_no_channel_of_its_own(log, state):
    """Case nvidia_smi-03: of the 69.85 W of an idle H100, 43.19 W are its memory; they are in it already."""
    average, now = (published("nvidia_smi-03", f"{name}, {state}") for name in ("average power", "power now"))
    header = "timestamp, index, power.draw.average [W], power.draw.instant [W], memory.power.draw.average [W]"
    read = log(rows(header, f"{stamp(0)}, 0, {average}, {now}, 43.19"))
    assert read.powers == {"0": [now]}


def test_average_only_is_named(log):
    read = log(rows("timestamp, power.draw.average [W]", *(f"{stamp(t)}, 183.28" for t in range(9))))
    assert read.averaged
    assert "power-averaged" in {reason.code for reason in read.reading(T0 + 1, T0 + 7).reasons}


@pytest.mark.parametrize(
    ("capability", "averaged"), [("7.5", False), ("8.0", False), ("8.6", True), ("9.0", True)]
)
def test_power_draw_is_an_average_from_ampere_on_but_for_ga100(log, capability, averaged):
    text = rows("timestamp, compute_cap, power.draw [W]", f"{stamp(0)}, {capability}, 100.0")
    assert log(text).averaged is averaged


def test_power_draw_of_an_unknown_gpu_is_taken_for_an_average(log):
    assert log(rows("timestamp, power.draw [W]", f"{stamp(0)}, 100.0")).averaged


def test_each_gpu_has_its_best_field(log):
    """Case nvidia_smi-01: Turing has no power.draw.average; a neighbour may have nothing else."""
    text = rows(
        "timestamp, uuid, power.draw.instant [W], power.draw.average [W]",
        f"{stamp(0)}, GPU-a, 39.32, [N/A]",
        f"{stamp(0)}, GPU-b, [N/A], 50.0",
        f"{stamp(1)}, GPU-a, 39.32, [N/A]",
        f"{stamp(1)}, GPU-b, [N/A], 60.0",
    )
    read = log(text)
    assert read.powers == {"GPU-a": [39.32, 39.32], "GPU-b": [50.0, 60.0]}
    assert read.field == "power.draw.average, power.draw.instant"


def test_gpu_without_any_power_is_there_and_unknown(log):
    """Case nvidia_smi-07: GeForce GTX 770 says [Not Supported] throughout."""
    text = rows(
        "timestamp, index, power.draw [W]",
        *(f"{stamp(t)}, {g}, {p}" for t in range(9) for g, p in (("0", "[Not Supported]"), ("1", "100.0"))),
    )
    reading = log(text).reading(T0 + 1, T0 + 7)
    assert (reading.energy, str(reading.energy_reason)) == (None, "window-not-bracketed: 0: no samples")
    assert reading.parts["1"] == pytest.approx(600.0)
    assert "0: 9 samples are [Not Supported]" in {reason.detail for reason in reading.reasons}


def test_lost_gpu_ends_its_energy(log):
    text = rows(
        "timestamp, index, power.draw [W]",
        *(f"{stamp(t)}, 0, {'[GPU is lost]' if t > 5 else 100.0}" for t in range(9)),
    )
    reading = log(text).reading(T0 + 1, T0 + 7)
    assert reading.energy_reason.code == "window-not-bracketed"
    assert log(text).reading(T0 + 1, T0 + 5).energy == pytest.approx(400.0)


def test_two_gpus_in_one_window(log):
    """Case nvidia_smi-18, written as a log: 2200 J + 3200 J, 540 W."""
    times = [-1, 1, 3.5, 6, 8.5, 11]
    text = rows(
        "timestamp, index, power.draw.instant [W]",
        *(f"{T0 + t}, {gpu}, {100 * (gpu + 1) + 20 * (t + 1)}" for t in times for gpu in (0, 1)),
    )
    reading = log(text, gpus=2).reading(T0, T0 + 10)
    expected = [published("nvidia_smi-18", f"energy of GPU {gpu}") for gpu in (0, 1)]
    assert list(reading.parts.values()) == pytest.approx(expected)
    assert reading.power == pytest.approx(published("nvidia_smi-18", "mean power"))


def test_number_of_gpus_is_checked(log):
    """noonghunna/club-3090#103: GPU 0's watts printed for a run on two."""
    read = log(rows("timestamp, index, power.draw [W]", f"{stamp(0)}, 0, 209.57"), gpus=2)
    assert "device-count: 1 GPUs are logged, 2 took part" in [str(reason) for reason in read.reasons]


def test_mig_power_is_that_of_the_whole_gpu(log):
    """Case nvidia_smi-04: power.draw 433.78 W with MIG enabled, utilization [N/A]."""
    power = published("nvidia_smi-04", "power of the GPU")
    text = rows(
        "timestamp, index, mig.mode.current, utilization.gpu [%], power.draw [W]",
        f"{stamp(0)}, 0, Enabled, [N/A], {power}",
    )
    assert "mig-whole-gpu" in {reason.code for reason in log(text).reasons}


def test_zone_is_recorded(log):
    read = log(rows("timestamp, power.draw [W]", f"{stamp(0)}, 39.32"), zone="+02:00")
    assert read.times["0"] == [T0 - 7200]
    assert "zone-assumed: +02:00" in [str(reason) for reason in read.reasons]
    assert read.info.notes[-1] == "time zone +02:00"
    assert not log(rows("timestamp, power.draw [W]", f"{T0}, 39.32")).zone


def test_zone_is_asked_for(log):
    message = "smi.csv:2: timestamp: time stamp .* has no zone; say where its machine stands with zone='Europe/Berlin'"
    with pytest.raises(InputError, match=message):
        log(rows("timestamp, power.draw [W]", f"{stamp(0)}, 39.32"), zone="")


def test_clock_that_was_set_back(log):
    text = rows("timestamp, power.draw [W]", *(f"{T0 + t}, 100" for t in (0, 1, 2, -3598, -3597)))
    assert [str(r) for r in log(text).reasons][0].endswith("smi.csv:5: power.draw: 3.6e+03 s back")
    assert log(text).reasons[0].code == "clock-jump"


def test_bad_rows_are_refused_by_line_and_the_rest_is_used(log):
    text = rows(
        "timestamp, index, power.draw [W]",
        f"{stamp(0)}, 0, 100.0",
        f"{stamp(1)}, 0",
        "noon, 0, 100.0",
        f"{stamp(2)}, 0, plenty",
        f"{stamp(3)}, 0, -5",
        f"{stamp(4)}, 0, 102.0",
    )
    read = log(text)
    assert read.powers == {"0": [100.0, 102.0]}
    said = [str(fault).split("smi.csv:")[1] for fault in read.faults]
    assert said == [
        "3: expected 3 cells as in the header, got 2; the row is left out, cells are never shifted",
        "4: timestamp: expected a time stamp, got 'noon'",
        "5: power.draw: expected watts, got 'plenty'",
        "6: power.draw: expected at least 0 W, got -5 W; check the clamp's direction",
    ]
    assert any("4 rows of" in reason.detail for reason in read.reasons)


def test_log_without_a_header(log):
    with pytest.raises(InputError, match="expected a column timestamp, there is none; log with a header"):
        log(f"{stamp(0)}, 0, 39.32\n")
    assert log(f"{stamp(0)}, 0, 39.32\n", columns=["timestamp", "index", "power.draw"]).powers == {
        "0": [39.32]
    }


def test_log_without_power(log):
    with pytest.raises(
        InputError, match="expected a column power.draw, there is none. Did you mean power.drawn?"
    ):
        log(rows("timestamp, power.drawn [W]", f"{stamp(0)}, 1"))
    with pytest.raises(InputError, match="there is none; query power.draw.instant"):
        log(rows("timestamp, x", f"{stamp(0)}, 1"))


def test_gpus_that_cannot_be_told_apart(log):
    message = "smi.csv:3: the stamp of line 2 comes again and no column tells GPUs apart; log the column uuid"
    with pytest.raises(InputError, match=message):
        log(rows("timestamp, power.draw [W]", f"{stamp(0)}, 100", f"{stamp(0)}, 200"))


def test_files_that_are_no_logs(tmp_path, log):
    with pytest.raises(NotFoundError, match="none.csv: no such file"):
        read_nvidia_smi(tmp_path / "none.csv")
    with pytest.raises(InputError, match="expected a readable file, got Is a directory"):
        read_nvidia_smi(tmp_path)
    with pytest.raises(InputError, match="expected a header and rows, the file is empty"):
        log("\n\n")
    with pytest.raises(InputError, match="column 'timestamp' is there twice; name each column once"):
        log("timestamp, timestamp\n")
    with pytest.raises(InputError, match="expected power samples, found none"):
        log("timestamp, power.draw [W]\n")
    (tmp_path / "latin.csv").write_bytes(b"timestamp,\xe9\xff\n")
    with pytest.raises(InputError, match="expected text in UTF-8, byte 10 is none; save it as UTF-8"):
        read_nvidia_smi(tmp_path / "latin.csv")


def test_powershell_writes_utf_16(tmp_path):
    path = tmp_path / "smi.csv"
    path.write_bytes(rows("timestamp; power.draw [W]", f"{stamp(0)}; 39.32 W").encode("utf-16"))
    assert read_nvidia_smi(path, "UTC").powers == {"0": [39.32]}

"""PTDaemon logs: pairs, channels, marks, and lines that are no samples."""

import pytest

from joulesim.errors import InputError
from joulesim.measure.importers.mlperf_power import ranging, read_ptdaemon

from .reference import published


def line(second, watts, mark="run_1_ranging", volts=227.37, amps=0.225410, tail=""):
    return f"Time,01-22-2021 15:05:{second:06.3f},Watts,{watts},Volts,{volts},Amps,{amps},PF,0.45,Mark,{mark}{tail}"


@pytest.fixture
def spl(tmp_path):
    def write(*lines):
        path = tmp_path / "spl.txt"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_ranging(spl):
    """Case mlperf_power-01: 22.97 W and three times 25.65 W, of which two have one stamp."""
    path = spl(
        line(14.313, 22.97, amps=0.2),
        *(line(t, 25.65) for t in (15.313, 15.313, 16.313)),
        line(17.313, 400.0, mark="run_1_testing"),
    )
    result = ranging(path)
    assert result.power == pytest.approx(published("mlperf_power-01", "mean power"))
    assert result.volts == published("mlperf_power-01", "highest voltage")
    assert result.amps == published("mlperf_power-01", "highest current")
    assert result.samples == 4
    assert ranging(path, mark="other") is None


def test_marks_bound_the_parts_of_a_run(spl):
    log = read_ptdaemon(
        spl(
            *(line(t, 100.0) for t in range(5)),
            *(line(t, 300.0, "testing") for t in range(5, 10)),
            line(10, 90.0, "notset"),
        ),
        zone="UTC",
    )
    start, stop = log.marks["testing"]
    assert stop - start == 4.0
    assert log.reading(start, stop).energy == pytest.approx(1200.0)
    assert set(log.marks) == {"run_1_ranging", "testing"}
    assert log.info.boundary == "wall"


def test_channels(spl):
    """Case mlperf_power-02: -1 is not applicable; the total stands."""
    channels = ",Ch1,Watts,91.06,Volts,230,Ch2,Watts,90.95,Volts,230,Ch3,Watts,90.92,Volts,230"
    path = spl(line(1, published("mlperf_power-02", "total power"), "notset", -1, -1, channels))
    log = read_ptdaemon(path, zone="UTC")
    assert log.powers["wall"] == [published("mlperf_power-02", "total power")]
    assert ranging(path, "notset").volts is None


def test_total_that_is_not_applicable_is_the_sum_of_the_channels(spl):
    log = read_ptdaemon(spl(line(1, -1, tail=",Ch1,Watts,91.5,Ch2,Watts,90.5")), zone="UTC")
    assert log.powers["wall"] == [182.0]


def test_two_analysers(spl):
    """Case mlperf_power-04: 422.866 W = 8.066 W + 414.8 W."""
    total = published("mlperf_power-04", "total power")
    log = read_ptdaemon(spl(line(1, total, tail=",Ch1,Watts,8.066,Ch2,Watts,414.8")), zone="UTC")
    assert (log.powers["wall"], log.faults) == ([422.866], ())


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (
            ",Ch1,Watts,100,Ch2,Watts,100",
            "channels add up to 200 W, the total is 272.93 W; the sample is left out",
        ),
        (
            ",Ch1,Watts,-136,Ch2,Watts,408.93",
            "expected channels of at least 0 W, got -136 W .a reversed clamp.",
        ),
    ],
)
def test_channels_that_do_not_match(spl, tail, message):
    """mlcommons/power-dev#329: a reversed clamp was added as an absolute value."""
    log = read_ptdaemon(spl(line(1, 100.0), line(2, 272.93, tail=tail)), zone="UTC")
    assert log.powers["wall"] == [100.0]
    with pytest.raises(InputError, match="spl.txt:2: " + message):
        raise InputError(log.faults)


def test_messages_stand_between_samples(spl):
    log = read_ptdaemon(
        spl(
            line(1, 100.0),
            "ERROR,Bad volts reading nan from WT310",
            "NOTICE,Analyzer is ready",
            line(2, 110.0),
            "ERROR,Bad volts reading nan from WT310",
        ),
        zone="UTC",
    )
    assert log.powers["wall"] == [100.0, 110.0]
    assert "samples-dropped: 2 x Bad volts reading nan from WT310" in [str(reason) for reason in log.reasons]


def test_lines_that_cannot_be_read(spl):
    log = read_ptdaemon(
        spl(line(1, 100.0), line(2, "nan"), line(3, "many"), "Watts,3", "Time,noon,Watts,3", line(4, -20.0)),
        zone="UTC",
    )
    assert log.powers["wall"] == [100.0]
    said = [str(fault).split("spl.txt:")[1] for fault in log.faults]
    assert said == [
        "4: expected a line that begins with Time, NOTICE or ERROR, got 'Watts,3'",
        "5: expected a time stamp, got 'noon'",
        "6: expected at least 0 W, got -20 W; check the clamp's direction",
    ]
    assert "wall: 2 samples are not readable" in {reason.detail for reason in log.reasons}


def test_zone_is_asked_for(spl):
    with pytest.raises(InputError, match="spl.txt:1: time stamp '01-22-2021 15:05:01.000' has no zone"):
        read_ptdaemon(spl(line(1, 100.0)))

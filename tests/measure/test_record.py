"""The record schema: what it refuses, and what it derives."""

import math

import pytest
from pydantic import ValidationError

from joulesim.measure.reading import MeterInfo, Reading
from joulesim.measure.record import Correctness, Idle, Ratios, Record, RowSource, Tokens, Window, fields_of
from joulesim.measure.validity import REASONS, Reason, Validity

from .points import METER, SCENARIO, measured, unmetered

NO_METER = Reason(code="no-meter")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"energy": None, "energy_reason": None},
            "expected joules or a reason, got neither; set energy_reason",
        ),
        ({"energy_reason": NO_METER}, r"expected joules or a reason, got both \(no-meter\)"),
        ({"boundary": None}, "expected what the joules include, got nothing; name the boundary"),
        ({"meter": None}, "expected the meter and the time of a measured energy, got nothing"),
        ({"provenance": "published"}, "expected where the published row stands, got nothing"),
        ({"power": 2.5}, r"expected power times time \(2.5 J\), got 100 J"),
        ({"energy": -1.0}, "greater than or equal to 0"),
        ({"energy": math.nan}, "finite"),
        ({"scenario": {"x": math.inf}}, "expected plain data"),
        ({"scenario": {"x": object()}}, "expected plain data"),
        (
            {
                "ratios": Ratios(energy_per_output_token=1.0),
                "boundary": None,
                "energy": None,
                "power": None,
                "energy_reason": NO_METER,
            },
            "name the boundary",
        ),
    ],
)
def test_refused(fields, message):
    whole = {
        "provenance": "measured",
        "scenario": SCENARIO,
        "energy": 100.0,
        "power": 100.0,
        "time": 1.0,
        "meter": METER,
        "boundary": "board",
    }
    with pytest.raises(ValidationError, match=message):
        Record(**(whole | fields))


def test_stamps_run_forward():
    with pytest.raises(ValidationError, match="expected a stop after the start, got 2 to 1"):
        Window(start=2.0, stop=1.0)


def test_more_correct_than_attempted():
    with pytest.raises(ValidationError, match="at most as many correct answers as attempts, got 3 of 2"):
        Correctness(correct=3, attempted=2)


def test_energy_of_wrong_answers_counts():
    """Case stats-01: two attempts of 10 J and 100 J, the first correct: 110 J per correct answer, not 10."""
    point = measured(energy=10.0 + 100.0, correctness=Correctness(correct=1, attempted=2))
    assert point.energy_per_correct_answer == 110.0


def test_no_correct_answer_gives_no_number():
    assert measured(correctness=Correctness(correct=0, attempted=2)).energy_per_correct_answer is None


def test_energy_by_unit_of_work():
    point = measured(energy=100.0, time=2.0, tokens=Tokens(output=50, requests=4), idle=Idle(resident=10.0))
    assert (point.energy_per_output_token, point.energy_per_request) == (2.0, 25.0)
    assert point.idle_adjusted_energy == 80.0
    assert unmetered().idle_adjusted_energy is None


def test_published_ratio_stands_in_where_no_energy_is_stated():
    """Case energy-01: 0.1186 J/token at 610.3 W and 5147 tok/s (ML.ENERGY v3, Llama-3.1-8B, H100)."""
    point = Record(
        provenance="published",
        scenario={"model": "llama-3.1-8b"},
        boundary="board",
        power=610.3,
        energy_reason=Reason(code="not-published"),
        ratios=Ratios(energy_per_output_token=0.1186),
        source=RowSource(ref="https://ml.energy"),
    )
    assert point.energy_per_output_token == 0.1186
    assert point.energy_per_output_token == pytest.approx(610.3 / 5147, rel=1e-3)


def test_scenario_is_kept_word_for_word():
    assert measured().plain()["scenario"] == SCENARIO
    assert "note" in measured().plain()["scenario"]


def test_every_reason_has_a_weight_and_a_sentence():
    assert all(weight in ("valid", "suspect", "invalid") and text for weight, text in REASONS.values())
    assert str(NO_METER) == "no-meter: no energy meter answers on this machine"


def test_verdict_is_the_worst_reason():
    mild, bad = Reason(code="throttled"), Reason(code="clock-jump", detail="3 s back")
    assert Validity.of([]).verdict == "valid"
    assert Validity.of([mild, mild]).reasons == (mild,)
    validity = Validity.of([mild]).plus(bad)
    assert (validity.verdict, validity.codes) == ("invalid", ("throttled", "clock-jump"))


def test_unknown_reason_code():
    with pytest.raises(ValidationError, match="got .throtled.. Did you mean throttled"):
        Reason(code="throtled")


def test_reading_has_energy_or_reason():
    with pytest.raises(ValidationError, match="expected an energy or the reason why there is none"):
        Reading(meter=METER, start=0.0, stop=1.0)
    reading = Reading(meter=METER, start=1.0, stop=3.0, energy=10.0)
    assert (reading.time, reading.power) == (2.0, 5.0)


def test_record_of_a_reading():
    reading = Reading(
        meter=METER, start=1.0, stop=3.0, energy=10.0, resolution=0.1, reasons=(Reason(code="throttled"),)
    )
    record = Record(provenance="measured", scenario=SCENARIO, **fields_of(reading))
    assert (record.energy, record.power, record.time, record.boundary) == (10.0, 5.0, 2.0, "board")
    assert (record.window.clock, record.validity.verdict) == ("monotonic", "suspect")
    silent = Reading(meter=METER, start=1.0, stop=3.0, energy_reason=NO_METER)
    assert Record(provenance="measured", scenario=SCENARIO, **fields_of(silent)).energy_reason == NO_METER


def test_shortest_window_is_100_updates_or_100_averages():
    assert METER.shortest_window == 10.0
    assert MeterInfo(name="nvml", update_period=0.1, averaging_time=1.0).shortest_window == 100.0

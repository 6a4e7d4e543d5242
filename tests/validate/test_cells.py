"""Numbers of a table: in range, or told by row and column with the range."""

import warnings

import pytest

from joulesim.errors import InputError
from joulesim.validate import cells, published, tables
from tests.validate.test_tables import ROW, table

COLUMNS = [column for column in ROW if column in cells.RANGES and column != "parallelism"]


def reason(tmp_path, change):
    """Why a row is refused; the row beside it is predicted, and nothing overflows on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused, good = published.predict_file(table(tmp_path, change, {}))
    assert refused.energy is None and good.energy is not None and good.reason == ""
    return refused.reason


@pytest.mark.parametrize("text", ["1e300", "-1e300", "1e400", "nan", "9" * 400])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_number_beyond_its_range_costs_its_row_alone(tmp_path, column, text):
    said = reason(tmp_path, {column: text})
    low, high = cells.RANGES[column]
    assert said.startswith(f"mine.csv: line 2: {column}: expected {low:g} to {high:g}, got '{text[:5]}")
    assert said.endswith("; check the number and its unit") and len(said) < 200


@pytest.mark.parametrize(("change", "said"), [
    ({"power_w": "1e300"}, "line 2: power_w: expected 0.001 to 1e+09, got '1e300'; check the number and its unit"),
    ({"batch_concurrency": "0"}, "line 2: batch_concurrency: expected 0.001 to 1e+07, got '0'"),
    ({"output_tokens": "1e-300"}, "line 2: output_tokens: expected at least one token, got 1e-300"),
    ({"output_tokens": "", "notes": "task=gpqa; max_num_seqs=64; 82793 tokens over ~0 prompts"},
     "line 2: notes: tokens over prompts: expected 1 to 1e+09, got '82793 tokens over ~0 prompts'"),
    ({"notes": "task=gpqa; max_num_seqs=1e300"}, "line 2: notes: max_num_seqs: expected 1 to 1e+07, got '1e300'"),
    ({"hardware_variant": "power cap 0 W"}, "line 2: hardware_variant: power limit: expected 1 to 1e+06, got '0'"),
    ({"parallelism": "TP" + "9" * 5000}, "line 2: parallelism: expected 1 to 1e+06, got 'TP999"),
    ({"num_gpus": "many" * 100}, "line 2: num_gpus: expected a number, got 'manymany"),
])
def test_what_a_row_cannot_say(tmp_path, change, said):
    assert said in reason(tmp_path, change)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("column", ["num_gpus", "batch_concurrency", "prompt_tokens", "output_tokens"])
def test_either_end_of_a_range_is_predicted(tmp_path, column, end):
    text = str(max(cells.RANGES[column][end], 1 if column == "output_tokens" else 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = published.predict_file(table(tmp_path, {column: text, "parallelism": ""}))
    assert row.energy is not None and "not a number" not in row.reason


def test_lengths_beside_a_table_beyond_their_range_are_named(tmp_path):
    path = table(tmp_path, {})
    columns = "model,task,hardware,num_gpus,max_num_seqs,outputs,mean,mean_square_over_mean,max"
    path.with_name("mine_output_lengths.csv").write_text(f"{columns}\nx,gpqa,H100,1,64,500,1e300,900,4000\n")
    with pytest.raises(InputError, match=r"mine_output_lengths.csv: line 2: mean: expected 0.001 to 1e\+09, got '1e300'"):
        tables.read(path)


@pytest.mark.parametrize(("text", "share"), [
    ("0.715", 0.715), ("71.5 %", 0.715), ("71.5%", 0.715), ("100 %", 1.0), ("1", 1.0), ("0 %", 0.0), ("", None),
])
def test_a_share_is_a_number_or_percent(tmp_path, text, share):
    (row,) = published.predict_file(table(tmp_path, {"accuracy": text}))
    assert row.point.accuracy == (None if share is None else pytest.approx(share))
    assert row.energy_per_correct == (pytest.approx(row.energy * 395.6 / share) if share else None)
    assert "expected a share" not in row.reason


@pytest.mark.parametrize(("text", "remedy"), [
    ("71.5", "looks like percent: write '71.5 %' or 0.715"), ("100", "looks like percent: write '100 %' or 1"),
    ("150 %", "write it as e.g. '71.5 %' or 0.715"), ("-0.2", "write it as e.g. '71.5 %' or 0.715"),
    ("1e300", "write it as e.g. '71.5 %' or 0.715"), ("1e-300", "write it as e.g. '71.5 %' or 0.715"),
    ("nan", "write it as e.g. '71.5 %' or 0.715"), ("ROUGE1: 44.7", "write it as e.g. '71.5 %' or 0.715"),
])
@pytest.mark.parametrize("task", ["", "gpqa"])
def test_what_is_no_share_is_told_beside_the_energy_per_token(tmp_path, text, remedy, task):
    row, other = published.predict_file(table(tmp_path, {"accuracy": text, "accuracy_task": task}, {}))
    assert row.energy == other.energy and row.energy_per_correct is None and row.point.accuracy is None
    assert row.reason == f"mine.csv: line 2: accuracy: expected a share between 0 and 1, got '{text}'; {remedy}"


def test_what_is_no_share_is_told_where_the_energy_is_unknown(tmp_path):
    (row,) = published.predict_file(table(tmp_path, {"accuracy": "71.5", "energy_boundary": "wall"}))
    assert row.energy is None
    assert "hardware.system.psu_efficiency is unknown" in row.reason and "looks like percent" in row.reason


@pytest.mark.parametrize("task", ["teacher-forced perplexity (own corpus)", "Perplexity", "ppl_wikitext"])
def test_a_perplexity_is_no_percentage(tmp_path, task):
    (row,) = published.predict_file(table(tmp_path, {"accuracy": "9.6", "accuracy_task": task}))
    assert row.point.accuracy is None
    assert row.reason == "energy per correct answer: the row has no accuracy"

"""The fit recovers constants that made the data, says what it cannot know, and its derivatives are right."""

from dataclasses import replace

import numpy as np
import pytest

from joulesim.cli import main
from joulesim.validate import evaluate, fit, holdout, published


@pytest.fixture(scope="module")
def plan():
    return fit.plan("vllm")


@pytest.fixture(scope="module")
def points(plan):
    used, _ = holdout.split(published.load("mlenergy_v3"), plan)
    return used[::6]


@pytest.fixture(scope="module")
def devices(points):
    return tuple(dict.fromkeys(p.hardware for p in points))


def made_by(plan, devices, shared, points):
    """Points as a fit with these shared logarithms would predict them."""
    zero = np.zeros((len(devices), len(shared)))
    truth = fit.FitResult(plan, devices, shared, zero, np.empty((0, 0)), "", 0.0, 0)
    said = fit.predict_points(truth, points)
    return [p._replace(output_throughput=float(said.throughput[i]), power=float(said.power[i]),
                       energy_per_token=float(said.energy[i])) for i, p in enumerate(points)]


def test_a_fit_of_data_made_by_the_model_predicts_them(plan, points, devices):
    shared = np.log([p.value for p in plan.parameters])
    moved = shared + 0.5 * np.array([p.spread for p in plan.parameters])
    result = fit.fit(made_by(plan, devices, moved, points), plan, evaluations=25)
    found = holdout.errors(result, made_by(plan, devices, moved, points), "none")
    assert np.median(np.abs(found.percent("energy"))) < 1.0
    assert np.median(np.abs(found.percent("time"))) < 1.5


def test_derivatives_equal_finite_differences(plan, points, devices):
    groups = evaluate.gather(points)
    problem = fit._Problem(points, groups, plan, devices, {})
    theta = problem.start(None)
    jacobian = problem.jacobian(theta).copy()
    base = problem.residuals(theta).copy()
    for column in (0, 3, len(plan.parameters) - 1, len(theta) - 1):
        step = theta.copy()
        step[column] += 1e-4
        numeric = (problem.residuals(step) - base) / 1e-4
        assert jacobian[:, column] == pytest.approx(numeric, abs=2e-2 * max(1.0, np.abs(numeric).max()))


def test_what_the_data_cannot_identify_keeps_its_prior_and_is_said(plan, points):
    dense = [p for p in points if p.model == "llama-3.1-8b-instruct"]
    result = fit.fit(dense, plan, evaluations=15)
    skew = [p.label for p in plan.parameters].index("expert_skew")
    assert np.exp(result.shared[skew]) == pytest.approx(plan.parameters[skew].value, rel=1e-3)
    assert "expert_skew: the data do not identify it; it keeps its prior" in result.notes()


@pytest.mark.slow
def test_every_start_ends_in_the_same_minimum(plan, points, devices):
    spread = np.array([p.spread for p in plan.parameters])
    draws = np.random.default_rng(0).standard_normal((3, len(spread)))
    whole = fit.fit(points, plan)
    costs = [fit.fit(points, plan, start=replace(whole, shared=whole.shared + 0.5 * spread * draw)).cost for draw in draws]
    assert costs == pytest.approx([whole.cost] * 3, abs=0.05)


def test_medians_of_series_drawn_again(points):
    def found(logs):
        return holdout.Errors(list(points), {"energy": np.asarray(logs)}, "model", np.ones(len(points), bool))

    keys = list(dict.fromkeys(p.series() for p in points))
    low, high, series = holdout.median_range(found(np.full(len(points), np.log(1.1))))
    assert (low, high) == pytest.approx((10.0, 10.0)) and series == len(keys) > 10
    half = [np.log(1.2) if keys.index(p.series()) % 2 else 0.0 for p in points]  # one series right, the next 20 % off
    low, high, _ = holdout.median_range(found(half))
    assert low == pytest.approx(0.0) and high == pytest.approx(20.0)
    assert np.isnan(holdout.median_range(found(np.full(len(points), np.nan)))[0])


def test_weights_of_a_class_reach_the_quantities_it_names(plan, points):
    single = next(p for p in points if fit.jittery(p))
    other = next(p for p in points if not fit.jittery(p))
    assert [plan.weight(single, quantity) for quantity in ("time", "power", "energy")] == [0.1, 0.1, 1.0]
    assert plan.weight(other, "time") == 1.0
    assert plan._replace(downweighted={}).weight(single, "time") == 1.0


def test_the_hash_names_the_records(points):
    assert fit.records_hash(points) == fit.records_hash(list(points))
    assert fit.records_hash(points) != fit.records_hash(points[1:])


def test_frozen_parameters_stay(plan, points):
    result = fit.fit(points[::3], plan, frozen={"host_per_step": 1e-3}, evaluations=8)
    index = [p.label for p in plan.parameters].index("host_per_step")
    assert np.exp(result.shared[index]) == pytest.approx(1e-3, rel=1e-2)


def test_rules_leave_rows_out_before_any_fit(plan):
    used, excluded = holdout.split(published.load("mlenergy_v3"), plan)
    assert set(excluded) <= set(plan.rules)
    assert all(p.batch >= 0.95 * p.max_batch for p in used)
    assert len(used) + sum(map(len, excluded.values())) == len(published.load("mlenergy_v3"))


@pytest.mark.slow
def test_models_never_seen_are_predicted(plan):
    """The bars of the first table: what was reached, so that a change that loses it is seen."""
    used, _ = holdout.split(published.load("mlenergy_v3"), plan)
    found = holdout.leave_out(used, plan, "model")
    energy, time, power = (holdout.summary(found.percent(q)) for q in ("energy", "time", "power"))
    assert energy.median < 6.0 and energy.p90 < 14.0
    assert time.median < 6.0 and time.p90 < 15.0
    assert power.median < 7.0
    covered, ratio = holdout.coverage(found, 0.8, lambda p: p.model)
    assert 0.7 <= covered <= 0.9 and ratio <= 1.8


def test_whitened_rows_of_a_series_are_uncorrelated_with_unit_variance():
    """The transform times the covariance times its transpose is the identity; what is absent stays out."""
    keys, correlation = [("a",)] * 3 + [("b",)] * 2 + [("a",)], 0.4
    present = np.ones((1, 6), bool)
    present[0, 1] = False
    series = fit._Series(keys, present, correlation)
    transform = series.whitened(np.eye(6)[None] * present[:, :, None])[0]
    same = np.array([[p == q for q in keys] for p in keys])
    covariance = np.where(same, correlation, 0.0) + (1 - correlation) * np.eye(6)
    seen = present[0]
    assert (transform @ covariance @ transform.T)[np.ix_(seen, seen)] == pytest.approx(np.eye(5))
    assert not transform[~seen].any()


def test_independent_rows_stay_as_they_are():
    values = np.arange(6.0).reshape(1, 6)
    assert fit._Series([("a",)] * 6, np.ones((1, 6), bool), 0.0).whitened(values) == pytest.approx(values)


def by_hand(table, seen, logs, models):
    """Errors of a table whose rows have these logarithms and models."""
    rows = [p._replace(table=table, model=m) for p, m in zip(published.load("mlenergy_v3"), models, strict=False)]
    logs = {q: np.asarray(logs) for q in holdout.QUANTITIES}
    return published.TableErrors(table, seen, holdout.Errors(rows, logs, "table", np.ones(len(rows), bool)))


def test_widths_come_from_other_models_of_a_table_or_from_other_tables():
    small, large = [0.01] * 10, [-0.5] * 10
    seen = by_hand("a", True, small + large, ["qwen3-8b"] * 10 + ["qwen3-32b"] * 10)
    wide, narrow = np.exp(2 * 0.5), np.exp(2 * 0.01)  # each model's width is the other's error
    assert published.table_coverage([seen]) == [(0.5, pytest.approx((wide + narrow) / 2))]
    near, far = by_hand("b", False, small, ["qwen3-8b"] * 10), by_hand("c", False, large, ["qwen3-8b"] * 10)
    assert [share for share, _ in published.table_coverage([near, far])] == [1.0, 0.0]
    assert np.isnan(published.table_coverage([near])[0]).all()  # no other table, no width


def test_errors_by_table_with_models_left_out(capsys):
    assert main(["validate", "published", "--runtime", "deepspeed-mii", "--holdout", "model"]) == 0
    capsys.readouterr()
    found = published.by_table(["deepspeed-mii", "tensorrt-llm"], "model")
    assert [(t.table, t.seen) for t in found] == [("argonne_power", True)]
    assert len(found[0].errors.points) == 44 and found[0].median < 20.0


def test_what_all_runtimes_together_cannot_be_asked(capsys):
    assert main(["validate", "published", "--runtime", "all", "--holdout", "none"]) == 2
    assert "--runtime: expected one runtime with --holdout none, got all" in capsys.readouterr().err
    assert main(["validate", "published", "--runtime", "all", "--ship"]) == 2
    assert "--ship: expected --runtime with one runtime, got all of them" in capsys.readouterr().err

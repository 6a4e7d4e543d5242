"""Best points, frontiers and constraints of a sweep; the optimiser against a sweep of everything."""

import numpy as np
import pytest

import joulesim as js

pytest.importorskip("xarray")

OVER = {"serving.batch": [1, 2, 4, 8, 16, 32], "weights": ["q4_0", "q8_0"], "power_cap": [60.0, 90.0, 120.0]}


@pytest.fixture(scope="module")
def laptop():
    return js.load_scenario("qwen2.5-7b-q4_0-laptop-b8")


@pytest.fixture(scope="module")
def found(laptop):
    return js.sweep(laptop, OVER)


def test_best_is_the_smallest_that_satisfies_the_constraint(found):
    best = js.best(found, "energy_per_correct_answer", ["ttft <= 500 ms", "output_throughput >= 50 token/s"])
    allowed = found.energy_per_correct_answer.where((found.ttft <= 0.5) & (found.output_throughput >= 50))
    assert best.energy_per_correct_answer.item() == allowed.min().item()
    assert best.ttft.item() <= 0.5
    largest = js.best(found, "-output_throughput")
    assert largest.output_throughput.item() == found.output_throughput.max().item()


def test_no_point_beats_a_point_of_the_frontier(found):
    names = ("ttft", "energy_per_correct_answer", "memory.weights")
    for quantities in (names[:2], names):
        front = js.frontier(found, quantities)
        costs = np.column_stack([found[name].values.ravel() for name in quantities])
        for i in range(front.sizes["point"]):
            mine = np.array([front[name].values[i] for name in quantities])
            assert not np.any(np.all(costs <= mine, axis=1) & np.any(costs < mine, axis=1))


def test_a_sweep_with_a_dimension_called_point_has_views_too(laptop):
    design = js.random_design(20, {"serving.batch": (1, 32), "power_cap": (60.0, 120.0)})
    found = js.sweep(laptop, {"point": design, "weights": ["q4_0", "q8_0"]})
    assert js.best(found, "ttft").ttft.item() == found.ttft.min().item()


@pytest.mark.parametrize(("limits", "message"), [
    (["ttft <= 1 us", "tpot <= 1 ms"], "sweep: expected a point that satisfies everything, found none of 36: "
                                       "ttft <= 1 us excludes 36, tpot <= 1 ms excludes 36; loosen a constraint"),
    (["ttft"], "subject_to: expected QUANTITY <= VALUE or QUANTITY >= VALUE, got 'ttft'; e.g. 'ttft <= 0.5 s'"),
    (["tpott <= 1 s"], r"subject_to: no predicted quantity 'tpott'. Did you mean tpot\?"),
    (["ttft <= 1 W"], r"subject_to: ttft: expected s, got '1 W' \(energy/time\)"),
    (["ttft <= 1"], "subject_to: ttft: expected s, got the bare number '1'"),
])
def test_constraints_that_cannot_be_used(found, limits, message):
    with pytest.raises(js.InputError, match=message):
        js.best(found, "energy_per_answer", limits)


def test_quantities_that_cannot_be_used(found):
    with pytest.raises(js.InputError, match="minimise: no predicted quantity 'energy'"):
        js.best(found, "energy")
    with pytest.raises(js.InputError, match="minimise: expected two quantities or more for a frontier, got ttft"):
        js.frontier(found, ["ttft"])


def test_the_optimum_of_choices_is_the_best_point_of_the_sweep(laptop, found):
    optimum = js.optimise(laptop, OVER, subject_to=["ttft <= 0.5 s"])
    best = js.best(found, "energy_per_correct_answer", ["ttft <= 0.5 s"], 2)
    assert optimum.best.value == pytest.approx(best.energy_per_correct_answer.values[0], rel=1e-12)
    assert optimum.runner_up.value == pytest.approx(best.energy_per_correct_answer.values[1], rel=1e-12)
    assert optimum.prediction.energy_per_correct_answer.value == pytest.approx(optimum.best.value, rel=1e-9)


def test_the_optimum_of_ranges_is_as_good_as_a_fine_grid(laptop):
    limits = ["tpot <= 30 ms"]
    grid = js.sweep(laptop, {"weights": ["q4_0", "q8_0"], "serving.batch": range(1, 65), "power_cap": np.linspace(60, 120, 31)})
    fine = js.best(grid, "energy_per_correct_answer", limits)
    optimum = js.optimise(laptop, {"weights": ["q4_0", "q8_0"], "serving.batch": (1, 64), "power_cap": ("60 W", "120 W")},
                          subject_to=limits)
    assert optimum.best.value <= fine.energy_per_correct_answer.item() * (1 + 1e-9)
    assert optimum.prediction.tpot <= 0.030
    assert optimum.best.fields["weights"] == "q4_0"
    assert optimum.runner_up.fields["weights"] == "q8_0"
    assert optimum.distance > 0


def test_a_constraint_or_an_end_that_binds_is_named(laptop):
    optimum = js.optimise(laptop, {"power_cap": (60.0, 120.0)}, "-output_throughput", ["power <= 80 W"])
    assert optimum.prediction.power == pytest.approx(80, rel=1e-3)
    assert optimum.binding == ("power <= 80 W",)
    assert js.optimise(laptop, {"serving.utilisation": (0.1, 1.0)}).binding == ("serving.utilisation is at its highest, 1",)
    crowded = js.optimise(laptop.replace({"weights": "q8_0"}), {"serving.batch": (1, 1000)}, "-output_throughput")
    assert any(line.startswith("memory does not hold serving.batch") for line in crowded.binding)


def test_an_optimum_that_does_not_exist(laptop):
    with pytest.raises(js.InputError, match="optimise: expected a point that satisfies everything, found none of 512: "
                                            "ttft <= 1 us excludes 512"):
        js.optimise(laptop, {"serving.batch": (1, 8)}, subject_to=["ttft <= 1 us"])
    with pytest.raises(js.InputError, match="give task.correct and task.attempted, or minimise the figure per answer"):
        js.optimise(laptop.replace({"task": {}}), {"serving.batch": (1, 8)})
    with pytest.raises(js.InputError, match="serving.batch: expected low < high"):
        js.optimise(laptop, {"serving.batch": (8, 1)})
    with pytest.raises(js.InputError, match="weights: expected a range"):
        js.optimise(laptop, {"weights": ("q4_0", "q8_0")})

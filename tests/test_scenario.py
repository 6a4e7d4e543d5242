"""Scenarios: every fault of a file together, one line each, and scenarios derived from others."""

import pytest

import joulesim as js
from joulesim import catalogue
from joulesim.errors import InputError, NotFoundError
from joulesim.scenario import Scenario, build, load_scenario

PLAIN = {
    "hardware": "h100-sxm", "runtime": "vllm", "model": "llama-3.1-8b-instruct",
    "workload": {"prompt_tokens": 900, "output_tokens": 180},
}


def faults(document, **changes) -> list[str]:
    with pytest.raises(InputError, match=".") as caught:
        build({**document, **changes}, "s.yaml")
    return [str(fault) for fault in caught.value.faults]


def with_(path: str, value) -> dict:
    """The plain scenario with a dotted field set."""
    head, _, rest = path.partition(".")
    return {**PLAIN, head: {**PLAIN.get(head, {}), rest: value} if rest else value}


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_shipped_scenarios_load(name):
    scenario = load_scenario(name)
    assert scenario.name == name and scenario.title
    assert scenario.weight_rows


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_every_number_of_a_shipped_scenario_has_a_source(name):
    scenario = load_scenario(name)
    for part in ("workload", "serving", "task", "prices"):
        for field in scenario.document.get(part, {}):
            assert scenario.source(f"{part}.{field}"), f"{name}: {part}.{field}"


def test_shipped_scenarios_are_ones_that_a_reader_recognises():
    assert len(catalogue.names("scenario")) >= 12


FAULTS = [
    ("hardwar", 1, "s.yaml: hardwar: no such field. Did you mean hardware?"),
    ("workload.promt_tokens", 1, "s.yaml: workload.promt_tokens: no such field. Did you mean prompt_tokens?"),
    ("serving.bach", 1, "s.yaml: serving.bach: no such field. Did you mean batch?"),
    ("serving.zzz", 1, "s.yaml: serving.zzz: no such field; remove it"),
    ("serving.parallelism", {"tenser": 2}, "s.yaml: serving.parallelism.tenser: no such field. Did you mean tensor?"),
    ("serving.batch", 0, "s.yaml: serving.batch: expected a whole number of at least 1, got 0"),
    ("serving.batch", -3, "s.yaml: serving.batch: expected a whole number of at least 1, got -3"),
    ("serving.batch", 1.5, "s.yaml: serving.batch: expected a whole number, got 1.5"),
    ("serving.batch", True, "s.yaml: serving.batch: expected a whole number, got True"),
    ("serving.batch", "many", "s.yaml: serving.batch: expected a whole number, got 'many'"),
    ("serving.batch", float("nan"), "s.yaml: serving.batch: expected a whole number, got nan"),
    ("serving.batch", float("inf"), "s.yaml: serving.batch: expected a whole number, got inf"),
    ("serving.batch", None, "s.yaml: serving.batch: expected a whole number, got None"),
    ("serving.utilisation", 0, "s.yaml: serving.utilisation: expected more than 0, got 0; leave it out"),
    ("serving.utilisation", 1.2, "s.yaml: serving.utilisation: expected at most 1, got 1.2"),
    ("serving.utilisation", "110 %", "s.yaml: serving.utilisation: expected at most 1, got '110 %'"),
    ("serving.flash_attention", "perhaps", "s.yaml: serving.flash_attention: expected true or false, got 'perhaps'"),
    ("serving", 5, "s.yaml: serving: expected a mapping of fields, got 5"),
    ("workload", None, "s.yaml: workload: expected a mapping of fields, got None"),
    ("workload.prompt_tokens", -1, "s.yaml: workload.prompt_tokens: expected a finite length of at least 0 tokens, got -1"),
    ("workload.prompt_tokens", float("nan"), "expected a finite length of at least 0 tokens, got nan"),
    ("workload.prompt_tokens", "inf", "expected a finite length of at least 0 tokens, got 'inf'"),
    ("workload.prompt_tokens", "3 GB", "s.yaml: workload.prompt_tokens: expected token, got '3 GB' (information)"),
    ("workload.output_tokens", 0, "s.yaml: workload.output_tokens: expected a finite length of at least 1 tokens, got 0"),
    ("workload.output_tokens", {"distribution": "gauss"}, "expected distribution lognormal, histogram or trace, got 'gauss'"),
    ("workload.output_tokens", {"distribution": "lognormal", "mean": 5, "sd": 1}, "workload.output_tokens.maximum: expected a value"),
    ("workload.output_tokens", {"distribution": "lognormal", "mean": -5, "sd": 1, "maximum": 9}, "expected more than 0 token, got -5"),
    ("workload.output_tokens", {"distribution": "histogram", "edges": [0, 1], "counts": [1, 2]},
     "expected one edge more than counts, got 2 edges and 2 counts"),
    ("workload.output_tokens", {"distribution": "histogram", "edges": [5, 1], "counts": [1]}, "expected rising edges"),
    ("workload.output_tokens", {"distribution": "histogram", "edges": [0, 1], "counts": [0]}, "got counts that sum to 0"),
    ("workload.output_tokens", {"distribution": "trace", "file": "no.csv", "column": "x"}, "found no 'no.csv'; check the path"),
    ("task", {"correct": 5}, "s.yaml: task: expected correct and attempted together, got only one of them"),
    ("task", {"correct": 6, "attempted": 5}, "s.yaml: task: expected correct of at most attempted, got 6 of 5"),
    ("task", {"correct": 1, "attempted": 0}, "s.yaml: task.attempted: expected a whole number of at least 1, got 0"),
    ("task", {"method": "majorty"}, "Did you mean majority?"),
    ("task", {"samples": 3}, "s.yaml: task: expected samples of 1 with method single, got 3; name the method"),
    ("task", {"method": "majority", "samples": 3, "counts_of": "attempt"}, "single attempts do not determine a vote"),
    ("task", {"samples": 10**9, "method": "majority"}, "s.yaml: task: expected samples of at most 1000000, got 1000000000"),
    ("task", {"attempts_per_answer": 0}, "s.yaml: task.attempts_per_answer: expected more than 0, got 0"),
    ("prices.electricity", 0.25, "s.yaml: prices.electricity: expected an amount in EUR or USD, got 0.25; write it as e.g. '0.25 EUR/kWh'"),
    ("prices.electricity", "0.25 EUR", "s.yaml: prices.electricity: expected EUR/joule, got '0.25 EUR' (EUR)"),
    ("prices.electricity", "-1 EUR/kWh", "s.yaml: prices.electricity: expected an amount of at least 0, got '-1 EUR/kWh'"),
    ("prices.carbon", 300, "s.yaml: prices.carbon: expected gCO2e/joule, got the bare number 300; write it as e.g. '300 gCO2e/kWh'"),
    ("prices.pue", 0.9, "s.yaml: prices.pue: expected at least 1, got 0.9"),
    ("prices.lifetime", 4, "s.yaml: prices.lifetime: expected second, got the bare number 4"),
    ("boundary", "bord", "s.yaml: boundary: expected 'chip', 'board', 'host' or 'wall', got 'bord'. Did you mean board?"),
    ("power_mode", "turbo", "expected a power mode of h100-sxm"),
    ("power_cap", "300", "s.yaml: power_cap: expected watt, got the bare number '300'"),
    ("power_cap", "0 W", "s.yaml: power_cap: expected more than 0 W, got '0 W'"),
    ("speculation", {"method": "drat"}, "Did you mean draft?"),
    ("hardware", "h100-smx", "hardware 'h100-smx': no such hardware. Did you mean h100-sxm?"),
    ("hardware", "qqqqq", "hardware 'qqqqq': no such hardware; `joulesim hardware` lists them"),
    ("hardware", 5, "hardware: expected a name, a path or a mapping, got 5"),
    ("hardware", None, "s.yaml: hardware: expected a name, a path or a mapping, got None"),
    ("hardware", "none/such.yaml", "none/such.yaml: expected a hardware file, found none; check the path"),
    ("runtime", "vlm", "runtime 'vlm': no such runtime. Did you mean vllm?"),
    ("model", "llama-3.1-8b-instrct", "no such model. Did you mean llama-3.1-8b-instruct?"),
    ("weights", "q4_k_mm", "format 'q4_k_mm': no such format. Did you mean q4_k_m?"),
    ("kv_cache", "q8", "no such format"),
    ("sources", {"task": {"kind": "guessed"}}, "s.yaml: sources.task.kind: expected 'datasheet'"),
    ("sources", {"task": {"kind": "assumed", "reff": ""}}, "s.yaml: sources.task.reff: no such field. Did you mean ref?"),
]


@pytest.mark.parametrize("path, value, message", FAULTS, ids=[f"{p}={v}"[:50] for p, v, _ in FAULTS])
def test_each_fault_is_one_line_that_says_what_to_do(path, value, message):
    found = faults(with_(path, value))
    assert len(found) == 1, found
    assert message in found[0]
    assert "\n" not in found[0]


def test_all_faults_of_a_file_are_reported_together():
    found = faults({
        "hardware": "h100-smx", "runtime": "vllm", "model": {"base": "x"}, "weights": "q4_00", "boundry": "board",
        "workload": {"prompt_tokens": -1, "output_tokens": 0, "shared_prefix_tokens": "2 W"},
        "serving": {"batch": 0, "utilisation": 7}, "task": {"correct": 1}, "prices": {"pue": 0.5, "carbon": 3},
    })
    text = "\n".join(found)
    for piece in ("h100-sxm?", "q4_0?", "boundry", "prompt_tokens", "output_tokens", "shared_prefix_tokens", "batch", "utilisation",
                  "task", "pue", "carbon"):
        assert piece in text, f"{piece} not in\n{text}"
    assert len(found) >= 11


def test_missing_fields_are_named():
    found = faults({})
    assert [line.split(": ")[1] for line in found] == ["hardware", "runtime", "model", "workload"]
    assert all(line.endswith("expected a value, got nothing; add it") for line in found)


@pytest.mark.parametrize("document", [[], "text", 5, None])
def test_a_document_that_is_not_a_mapping(document):
    with pytest.raises(InputError, match=f"s.yaml: expected a mapping of fields, got {type(document).__name__}"):
        build(document, "s.yaml")


INLINE = [
    ({"base": "h100-sxm", "memory_bandwith": "1 TB/s"}, "hardware: memory_bandwith: no such field. Did you mean memory_bandwidth?"),
    ({"base": "h100-sxm", "memory_bandwidth": "4.8 TB"}, "expected byte/second, got '4.8 TB' (information); write it as e.g. '4.8 TB/s'"),
    ({"base": "h100-sxm", "memory_bandwidth": "4.8 Tb/s"}, "'4.8 Tb/s' is in bits and is 600 GB/s; did you mean '4.8 TB/s'"),
    ({"base": "h100-sxm", "memory_bandwidth": 3350e9}, "expected byte/second, got the bare number 3350000000000.0"),
    ({"base": "h100-sxm", "memory_bandwidth": "0 TB/s"}, "expected more than 0 B/s, got '0 TB/s'"),
    ({"base": "h100-sxm", "memory_bandwidth": "-1 TB/s"}, "expected more than 0 B/s, got '-1 TB/s'"),
    ({"base": "h100-sxm", "memory_bandwidth": "nan TB/s"}, "expected a finite byte/second, got 'nan TB/s'"),
    ({"base": "h100-sxm", "memory_bandwidth": "inf TB/s"}, "expected a finite byte/second, got 'inf TB/s'"),
    ({"base": "h100-sxm", "compute_rate": {"fp61": "1 TFLOP/s"}}, "compute_rate.fp61: no such field. Did you mean fp16?"),
    ({"base": "h100-smx"}, "no such hardware. Did you mean h100-sxm?"),
    ({"base": "h100-sxm", "sources": 5}, "hardware: sources: expected a mapping, got 5"),
    ({"base": "h100-sxm", "kind": "gpuu"}, "Did you mean gpu?"),
    ({}, "hardware"),
]


@pytest.mark.parametrize("hardware, message", INLINE[:-1], ids=[str(h)[:60] for h, _ in INLINE[:-1]])
def test_an_inline_profile_is_checked_like_a_file(hardware, message):
    found = faults({**PLAIN, "hardware": hardware})
    assert len(found) == 1, found
    assert message in found[0]


def test_a_profile_may_start_from_another_with_one_number_changed():
    scenario = build({**PLAIN, "hardware": {"base": "h100-sxm", "memory_bandwidth": "4.8 TB/s", "system": {"host_power": "90 W"}}}, "s")
    shipped = js.load_hardware("h100-sxm")
    assert scenario.hardware.memory_bandwidth == 4.8e12
    assert scenario.hardware.power_limit == shipped.power_limit
    assert scenario.hardware.system.host_power == 90.0
    assert scenario.hardware.system.psu_efficiency == shipped.system.psu_efficiency
    assert "system.host_power" not in scenario.hardware.unknown


def test_changes_in_python_are_si_and_changes_from_text_have_units():
    scenario = load_scenario("llama-3.1-8b-h100")
    assert scenario.replace({"hardware.memory_bandwidth": 1e12}).hardware.memory_bandwidth == 1e12
    assert scenario.replace({"hardware.memory_bandwidth": "1 TB/s"}, text=True).hardware.memory_bandwidth == 1e12
    with pytest.raises(InputError, match="hardware: memory_bandwidth: expected byte/second, got the bare number 1000000000000.0"):
        scenario.replace({"hardware.memory_bandwidth": 1e12}, text=True)


@pytest.mark.parametrize("text", ["1e3", "1000", "1000.0", "1_000", "1000 token", 1000])
def test_a_token_count_needs_no_unit(text):
    changed = load_scenario("llama-3.1-8b-h100").replace({"prompt": text, "workload.shared_prefix_tokens": text}, text=True)
    assert changed.workload.prompt_tokens == changed.workload.shared_prefix_tokens == 1000.0


def test_a_pint_quantity_is_accepted_in_python():
    from joulesim import units

    bandwidth = units.registry().Quantity(2, "TB/s")
    assert load_scenario("llama-3.1-8b-h100").replace({"hardware.memory_bandwidth": bandwidth}).hardware.memory_bandwidth == 2e12


def test_a_spec_made_in_python_can_be_used_and_changed():
    spec = js.load_hardware({"base": "h100-sxm", "name": "mine"})
    scenario = load_scenario("llama-3.1-8b-h100").replace({"hardware": spec})
    assert scenario.hardware.name == "mine"
    changed = scenario.replace({"hardware.memory_bandwidth": 2e12})
    assert changed.hardware.memory_bandwidth == 2e12 and changed.hardware.name == "mine"
    assert changed.replace({"hardware.power_limit": "500 W"}, text=True).hardware.power_limit == 500.0


def test_a_scenario_is_read_only_and_a_change_makes_another():
    scenario = load_scenario("llama-3.1-8b-h100")
    other = scenario.replace({"batch": 3, "prompt": 100, "serving.utilisation": 0.5})
    assert (scenario.serving.batch, other.serving.batch, other.workload.prompt_tokens) == (64, 3, 100.0)
    assert other.hardware is scenario.hardware
    with pytest.raises(ValueError, match="frozen"):
        scenario.name = "x"


def test_replacing_nothing_changes_nothing():
    scenario = load_scenario("llama-3.1-8b-h100")
    assert scenario.replace({}) == scenario
    assert isinstance(scenario.replace({}), Scenario)


@pytest.mark.parametrize("changes, message", [
    ({"serving.bach": 1}, "serving.bach: no such field. Did you mean batch?"),
    ({"servng.batch": 1}, "servng.batch: no such field. Did you mean serving?"),
    ({"bach": 1}, "bach: no such field. Did you mean batch?"),
    ({"": 1}, "no such field"),
    ({"model.layers": 3}, "model.layers: expected no change inside a model; give a config.json or another model"),
    ({"hardware.memory_bandwidth.x": 3}, "memory_bandwidth"),
])
def test_changes_that_do_not_exist(changes, message):
    with pytest.raises(InputError, match=".") as caught:
        load_scenario("llama-3.1-8b-h100").replace(changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("name, message", [
    ("llama-3.1-8b-h10", "scenario 'llama-3.1-8b-h10': no such scenario. Did you mean llama-3.1-8b-h100?"),
    ("zzz", "scenario 'zzz': no such scenario; `joulesim scenarios` lists them"),
    ("/no/such.yaml", "/no/such.yaml: expected a scenario file, found none; check the path"),
])
def test_a_scenario_that_does_not_exist(name, message):
    with pytest.raises(NotFoundError, match=".") as caught:
        load_scenario(name)
    assert message in str(caught.value)


def test_a_file_names_its_neighbours_by_relative_path(tmp_path):
    shipped = (catalogue.folder("hardware") / "h100-sxm.yaml").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(shipped, "utf-8")
    (tmp_path / "lengths.csv").write_text("input,output\n100,10\n300,30\n", "utf-8")
    (tmp_path / "s.yaml").write_text(
        "hardware: ./mine.yaml\nruntime: vllm\nmodel: llama-3.1-8b-instruct\n"
        "workload:\n  prompt_tokens: {distribution: trace, file: lengths.csv, column: input}\n"
        "  output_tokens: {distribution: trace, file: lengths.csv, column: output}\n", "utf-8")
    scenario = load_scenario(tmp_path / "s.yaml")
    assert scenario.hardware.memory_bandwidth == js.load_hardware("h100-sxm").memory_bandwidth
    assert scenario.workload.prompt_tokens.lengths == (100.0, 300.0)
    assert js.predict(scenario).outcome.prompt_tokens == 200.0


@pytest.mark.parametrize("text, message", [
    ("input\n5\nx\n-1\n", "line 3: expected a token count, got 'x'"),
    ("input\n", "expected one request a row, got none"),
    ("inputs\n5\n", "no column 'input' in t.csv. Did you mean inputs?"),
    ("", "no column 'input' in t.csv"),
    ("input\nnan\n", "line 2: expected a token count, got 'nan'"),
    ("input\n\xff\xfe\n", "expected a token count"),
])
def test_a_broken_trace(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text, "utf-8")
    (tmp_path / "s.yaml").write_text(
        "hardware: h100-sxm\nruntime: vllm\nmodel: llama-3.1-8b-instruct\n"
        "workload: {prompt_tokens: {distribution: trace, file: t.csv, column: input}, output_tokens: 5}\n", "utf-8")
    with pytest.raises(InputError, match=".") as caught:
        load_scenario(tmp_path / "s.yaml")
    assert message in str(caught.value)


def test_a_trace_that_is_not_text(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"input\n\xff\xfe\x00\n")
    (tmp_path / "s.yaml").write_text(
        "hardware: h100-sxm\nruntime: vllm\nmodel: llama-3.1-8b-instruct\n"
        "workload: {prompt_tokens: {distribution: trace, file: t.csv, column: input}, output_tokens: 5}\n", "utf-8")
    with pytest.raises(InputError, match="t.csv"):
        load_scenario(tmp_path / "s.yaml")

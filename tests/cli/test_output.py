"""Every command in every style, and the contract of its JSON."""

import csv
import io
import json

import pytest

from joulesim import catalogue
from joulesim.cli import COMMANDS, output

CONTRACT = (
    "scenario", "hardware", "model", "feasible", "reason", "batch", "max_batch", "memory", "ttft", "tpot", "e2e_latency",
    "output_throughput", "power", "boundary", "energy_per_output_token", "energy_per_answer", "energy_per_correct_answer",
    "idle_energy_per_answer", "accuracy", "cost_per_correct_answer", "carbon_per_correct_answer", "breakdown", "bound_by",
    "assumptions", "units", "joulesim_version",
)
LAPTOP = "qwen2.5-7b-q4_0-laptop-b8"
STYLES = ("table", "json", "csv", "md")
ARGUMENTS = {
    "predict": (LAPTOP,),
    "predict, unknown energy": ("gemma-3-270m-cpu",),
    "predict, does not fit": ("deepseek-v3-h200",),
    "predict, short form": ("qwen2.5-7b-instruct", "--on", "rtx-5070-ti-laptop", "--weights", "q4_0"),
    "predict, half idle": ("qwen3-8b-agent-half-idle-4090",),
    "predict, one token": (LAPTOP, "--set", "output=1"),
    "explain": (LAPTOP,),
    "explain, unknown energy": ("gemma-3-270m-cpu",),
    "explain, experts": ("qwen3-30b-a3b-h100",),
    "compare": ("qwen2.5-7b-q4_0-laptop-b1", LAPTOP, "deepseek-v3-h200", "gemma-3-270m-cpu"),
    "model": ("qwen2.5-7b-instruct",),
    "model, context": ("gpt-oss-20b", "--context", "4096", "--kv-format", "q8_0", "--weight-format", "bf16"),
    "hardware": (),
    "hardware, one": ("rtx-5070-ti-laptop",),
    "formats": (),
    "formats, one": ("q4_k_m",),
    "scenarios": (),
    "scenarios, one": (LAPTOP,),
    "scenarios, models": ("--models",),
    "scenarios, runtimes": ("--runtimes",),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_every_command_in_every_style(joulesim, case, style):
    ran = joulesim(case.partition(",")[0], *ARGUMENTS[case], "-o", style)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.strip()
    assert "nan" not in ran.out.lower().replace("nanosecond", "").split()
    if style == "json":
        json.loads(ran.out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    if style == "csv":
        rows = list(csv.reader(io.StringIO(ran.out)))
        assert len({len(row) for row in rows}) == 1, ran.out
    if style in ("table", "md"):
        table = [line for line in ran.out.splitlines() if line.startswith("|")]
        assert table and set(table[1]) <= set("|-:")


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_the_default_table_can_be_pasted(joulesim, name):
    """GitHub Markdown: a header, a rule, and as many cells in every row."""
    out = joulesim("predict", name).out
    table = [line for line in out.splitlines() if line.startswith("|")]
    cells = {line.replace("\\|", "").count("|") for line in table}
    assert len(cells) == 1
    assert "\x1b" not in out
    assert "Rests on:" in out


@pytest.mark.parametrize("command", ["scenarios", "hardware", "formats"])
def test_lists_are_objects_with_a_name(joulesim, command):
    kind = {"scenarios": "scenario", "formats": "format"}.get(command, command)
    rows = json.loads(joulesim(command, "-o", "json").out)
    assert [row["name"] for row in rows] == catalogue.names(kind)
    assert len({tuple(row) for row in rows}) == 1


def test_hardware_lists_si_numbers_and_null(joulesim):
    rows = {row["name"]: row for row in json.loads(joulesim("hardware", "-o", "json").out)}
    assert rows["h100-sxm"]["bandwidth"] == 3.35e12
    assert rows["cpu-2core-server"]["bandwidth"] is None
    assert "unknown" in joulesim("hardware").out


def test_one_profile_shows_sources_and_reasons(joulesim):
    out = joulesim("hardware", "rtx-5070-ti-laptop").out
    assert "672 GB/s (datasheet: " in out and "unknown: no sustained read measurement found" in out
    data = json.loads(joulesim("hardware", "rtx-5070-ti-laptop", "-o", "json").out)
    assert data["memory_bandwidth"] == 672e9 and data["sources"]["memory_bandwidth"]["kind"] == "datasheet"
    assert data["unknown"]["measured_memory_bandwidth"]


def test_predict_json_has_the_keys_of_the_contract(joulesim):
    data = json.loads(joulesim("predict", LAPTOP, "-o", "json").out)
    assert set(data) >= set(CONTRACT)
    assert sum(data["breakdown"].values()) == pytest.approx(data["energy_per_answer"])


def test_an_infeasible_prediction_is_fine_unless_it_is_required(joulesim):
    assert joulesim("predict", "deepseek-v3-h200").status == 0
    assert joulesim("predict", "deepseek-v3-h200", "--require-feasible").status == 1
    assert joulesim("predict", LAPTOP, "--require-feasible").status == 0
    data = json.loads(joulesim("predict", "deepseek-v3-h200", "-o", "json").out)
    assert data["feasible"] is False and data["energy_per_answer"] is None and data["reasons"]["energy_per_answer"]


def test_the_short_form_prints_every_default_as_an_assumption(joulesim):
    out = joulesim("predict", "qwen2.5-7b-instruct", "--on", "rtx-5070-ti-laptop").out
    rests = out.partition("Rests on:")[2]
    for line in ("prompt: 512", "output-tokens: 256", "batch: 1", "runtime: llama.cpp-cuda", "boundary: board",
                 "weights: as the checkpoint stores them", "kv_cache: f16"):
        assert line in rests, line
    given = joulesim("predict", "qwen2.5-7b-instruct", "--on", "rtx-5070-ti-laptop", "--prompt", "100", "--output-tokens", "20",
                     "--batch", "2", "--weights", "q4_0", "--kv-cache", "f16", "--runtime", "llama.cpp-cuda").out
    assert "default of the short form" not in given


@pytest.mark.parametrize("device", ["h100-sxm", "mi300x", "m5-pro", "rtx-4090", "raspberry-pi-5", "jetson-agx-orin-64gb", "epyc-9654"])
def test_the_short_form_knows_the_usual_runtime(joulesim, device):
    assert joulesim("predict", "qwen2.5-0.5b-instruct", "--on", device).status == 0


@pytest.mark.parametrize("device", catalogue.names("hardware"))
def test_the_short_form_runs_or_asks_for_a_runtime_on_every_device(joulesim, device):
    ran = joulesim("predict", "qwen2.5-0.5b-instruct", "--on", device, "--weights", "q4_0", "-o", "csv")
    assert ran.status == 0 or "--runtime: expected a runtime" in ran.err


def test_compare_says_which_is_cheaper_and_why(joulesim):
    out = joulesim("compare", "qwen2.5-7b-q4_0-laptop-b1", LAPTOP).out
    assert f"{LAPTOP} is cheaper than qwen2.5-7b-q4_0-laptop-b1 per correct answer by a factor of" in out
    assert "energy per output token x" in out
    data = json.loads(joulesim("compare", "qwen2.5-7b-q4_0-laptop-b1", LAPTOP, "-o", "json").out)
    assert data[1]["ratio"]["low"] < data[1]["ratio"]["value"] < data[1]["ratio"]["high"]


def test_set_changes_a_field_anywhere(joulesim):
    def power(*changes):
        arguments = [piece for change in changes for piece in ("--set", change)]
        return json.loads(joulesim("predict", LAPTOP, "-o", "json", *arguments).out)

    assert power("serving.batch=4")["batch"] == 4
    assert power("batch=4", "hardware.memory_bandwidth=1 TB/s", "runtime.overheads.kernel_launch=1 us")["batch"] == 4
    assert power("power_mode=cap-60w")["tpot"] >= power()["tpot"]
    assert power("prices.country=Germany")["carbon_per_correct_answer"]["operational"] > 0
    assert power("serving.utilisation=50 %")["idle_energy_per_answer"] > 0


def test_plots_are_written(joulesim, tmp_path):
    pytest.importorskip("matplotlib")
    for command in ("predict", "explain"):
        path = tmp_path / f"{command}.svg"
        assert joulesim(command, LAPTOP, "--plot", path).status == 0
        assert path.read_text("utf-8").startswith("<?xml")


def test_help_and_version(joulesim):
    for arguments in ((), ("--help",), ("-h",)):
        out = joulesim(*arguments).out
        assert all(f"  {command}" in out for command in COMMANDS)
    assert joulesim("--version").out.startswith("joulesim ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    from joulesim.cli import main

    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert COMMANDS[command][:20] in " ".join(capsys.readouterr().out.split())


def test_json_has_null_for_what_is_not_finite():
    assert json.loads(output.to_json({"a": float("nan"), "b": [float("inf"), 1.0], 3: ()})) == {"a": None, "b": [None, 1.0], "3": []}


def test_a_pipe_in_a_cell_does_not_end_it():
    assert "a\\|b" in output.table([("a|b", None)], ("x", "y"), "md")

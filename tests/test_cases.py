"""
The checkable cases of ``../shared/cases/cases.csv``: each is in a test, or is said here not to concern us.

Cases of models, caches, block formats and files are in ``tests/models``, of answers and carbon in
``tests/formulas``; here are those that need a whole scenario, and the ledger.
"""

import csv
import re
from pathlib import Path

import pytest

import joulesim as js
from joulesim import capacity, inputs
from joulesim.errors import InputError
from joulesim.predict import predict
from joulesim.scenario import load_scenario

from .formulas.reading import rows

TESTS = Path(__file__).parent
CASES = TESTS.parents[1] / "shared" / "cases" / "cases.csv"
OURS = ("kv_config", "params", "quant_block", "gguf", "engine_log", "stats", "carbon", "energy")

ELSEWHERE = {
    "energy-11": "an outlier of a published table, which the fit leaves out by rule; nothing to compute",
    "energy-12": "a warning about comparing answers of different length: compare prints tokens and J/token apart",
    "energy-15": "another tool's regression, whose batch is fixed at 64; not a formula of ours",
    "energy-18": "measured ratios of a 4-bit format at batch 1: evidence for the validation tables",
    "engine_log-13": "an engine that pads its cache pages: its own pool size, not a model's bytes",
}
"""Cases that are no test of a formula, and why."""


TESTED_AS = {
    "kv_config-43": "models/test_layers.py::test_encoders_are_refused",
    "engine_log-11": "models/test_gguf.py::test_recurrent_model_keeps_no_cache",
    "quant_block-01": "models/test_quantisation.py::test_fp8_blocks_leave_embeddings_output_and_norms",
    "quant_block-02": "models/test_quantisation.py::test_mxfp4_covers_experts_only",
    "quant_block-04": "models/test_quantisation.py::test_modelopt_file_beside_the_config",
    "quant_block-05": "models/test_quantisation.py::test_modelopt_file_in_a_folder",
    "gguf-01": "models/test_gguf.py::test_kv_heads_are_a_number_or_one_a_layer",
    "gguf-03": "models/test_gguf.py::test_long_arrays_are_read_whole",
    "gguf-04": "models/test_gguf.py::test_missing_head_count_is_refused",
    "gguf-05": "models/test_gguf.py::test_experts_have_the_prefix_of_the_architecture",
    "gguf-08": "models/test_gguf.py::test_interval_of_full_attention",
}
"""Cases whose test does not say their number."""


@pytest.mark.parametrize("case", TESTED_AS)
def test_a_test_that_is_named_exists(case):
    file, _, name = TESTED_AS[case].partition("::")
    assert f"def {name}(" in (TESTS / file).read_text("utf-8")


def test_case_params_14_memory_counts_all_experts_and_traffic_the_active_ones():
    """params-14: weights on the device are those of every expert; a decode step reads the few it touches."""
    x = one_of("qwen3-30b-a3b-h100", batch=1)
    held = float(capacity.memory_parts(x)["weights"])
    assert held == pytest.approx(2 * 30.53e9, rel=0.01)
    p = predict(load_scenario("qwen3-30b-a3b-h100").replace({"batch": 1}))
    read = float(p.outcome.decode.work.bytes.flat[0]) / float(p.outcome.output_tokens)
    assert read < held / 4


def test_every_case_is_in_a_test_or_said_not_to_concern_us():
    if not CASES.is_file():
        pytest.skip("no shared cases beside this checkout")
    with CASES.open(newline="", encoding="utf-8") as handle:
        ids = [row["id"] for row in csv.DictReader(handle) if row["kind"] in OURS]
    text = "\n".join(p.read_text("utf-8") for p in (*TESTS.rglob("*.py"), *TESTS.rglob("*.csv")))
    missing = [i for i in ids if not re.search(rf"{i.replace('_', '[_-]')}(?!\d)", text)]
    assert not missing, missing


@pytest.mark.parametrize("row", rows("energy.csv"), ids=lambda r: r["case"])
def test_published_joules_per_token_are_power_over_rate(row):
    each = float(row["power_w"]) / float(row["tokens_per_second"])
    assert each == pytest.approx(float(row["joules_per_token"]), rel=float(row["relative_tolerance"]))


def test_case_energy_01_an_answer_is_its_tokens():
    """energy-01: 0.1186 J/token x 395.5 tokens = 46.9 J; energy-07: 0.1023 x 2091 = 214 J."""
    assert pytest.approx(46.9, abs=0.05) == 0.1186 * 395.5
    assert pytest.approx(214, abs=0.5) == 0.1023 * 2091


@pytest.mark.parametrize("name, case, published", [
    ("llama-3.1-8b-h100", "energy-01", 0.1186), ("llama-3.1-8b-b200", "energy-03", 0.1103), ("gpt-oss-20b-h100", "energy-07", 0.1023),
])
def test_shipped_scenarios_come_near_what_was_published(name, case, published):
    """
    Within a factor of 1.5 of the ML.ENERGY leaderboard: a check of sense. How wrong predictions are is what
    ``joulesim validate published`` measures.
    """
    p = predict(load_scenario(name))
    assert p.energy_per_output_token == pytest.approx(published, rel=0.5), case


def one_of(name: str, **changes):
    """Inputs of a scenario, for the memory of one sequence on the engine."""
    return inputs.gather(load_scenario(name).replace(changes))[0]


def test_cases_engine_log_07_and_08_a_quantised_v_cache_needs_flash_attention():
    """engine_log-07, engine_log-08: llama.cpp refuses; the scenario is refused, not predicted with a smaller cache."""
    s = load_scenario("longest-context-laptop-q8_0")
    with pytest.raises(InputError, match="serving.flash_attention: expected true: llama.cpp-cuda quantises the V cache"):
        predict(s.replace({"serving.flash_attention": False}))
    assert predict(s.replace({"serving.flash_attention": False, "kv_cache": "f16", "serving.batch": 1})).feasible


def gemma(full: int, sliding: int, kv_heads: int, width: int, **more):
    """A model of sliding and full layers, as Gemma's, for the cells an engine keeps."""
    config = {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": full + sliding, "num_attention_heads": 8, "num_key_value_heads": kv_heads, "head_dim": width,
        "vocab_size": 262208, "max_position_embeddings": 131072, "sliding_window": 1024, "tie_word_embeddings": True,
        "layer_types": ["full_attention"] * full + ["sliding_attention"] * sliding, **more,
    }
    return js.load_model({"name": "gemma", "config": config})


def test_case_engine_log_05_cells_are_the_window_and_a_micro_batch():
    """engine_log-05: gemma3:4b at 131072 tokens: 5 full layers take 2560 MiB, 29 local ones of 1536 cells 174 MiB."""
    scenario = load_scenario("qwen2.5-7b-q4_0-laptop-b1").replace(
        {"model": gemma(5, 29, kv_heads=4, width=256), "weights": "q4_0", "workload": {"prompt_tokens": 130000, "output_tokens": 100}})
    x = inputs.gather(scenario)[0]
    assert capacity.growing_bytes(x, 131072.0) / 2**20 == 2560
    assert capacity.sequence_bytes(x, 131072.0) / 2**20 == 2560 + 174


@pytest.mark.parametrize("context, gigabytes", [(4096, 0.398), (131072, 3.00)])
def test_case_kv_config_28_engine_cells(context, gigabytes):
    """kv_config-28: Gemma-4-26B-A4B keeps 20480 B a token and 204800 B in each of 1536 cells."""
    x = one_of("qwen2.5-7b-q4_0-laptop-b1")
    mixers = gemma(5, 25, kv_heads=8, width=256).mixers
    mixers = tuple(m._replace(cache_elements=2 * 512 * 2) if m.kind == "full" else m for m in mixers)  # K is V, 2 heads of 512
    x = x._replace(mixers=mixers)
    assert capacity.growing_bytes(x, 1.0) == 20480
    assert capacity.sequence_bytes(x, 1536.0) - capacity.growing_bytes(x, 1536.0) == 204800 * 1536
    assert capacity.sequence_bytes(x, float(context)) / 1e9 == pytest.approx(gigabytes, abs=5e-3)


def test_case_engine_log_09_windows_do_not_grow():
    """engine_log-09: 48 layers of which 40 slide over 1024 tokens: at 128K a naive count is many times too high."""
    x = one_of("qwen2.5-7b-q4_0-laptop-b1", kv_cache="q8_0")._replace(mixers=gemma(8, 40, kv_heads=8, width=256).mixers)
    kept = capacity.sequence_bytes(x, 131072.0)
    naive = 48 * 131072 * 2 * 8 * 256 * 34 / 32
    assert naive / kept > 5
    assert kept == (8 * 131072 + 40 * 1536) * 2 * 8 * 256 * 34 / 32


def test_case_stats_08_and_09_truncated_answers_are_wrong_and_paid():
    """stats-08, stats-09: 11 of 25 answers empty at a budget of 256 tokens: they are among the attempted and cost energy."""
    s = load_scenario("qwen2.5-7b-q4_0-laptop-b8").replace({
        "workload": {"prompt_tokens": 300, "output_tokens": 900, "max_output_tokens": 256},
        "task": {"correct": 12, "attempted": 25, "truncated": "44 %"}}, text=True)
    p = predict(s)
    assert float(p.outcome.output_tokens) == 256
    assert p.energy_per_correct_answer.value == pytest.approx(p.energy_per_answer * 25 / 12)

"""What each published table means by its words: phase, rate, boundary, lengths, formats, runtimes, limits."""

import csv
from pathlib import Path

import pytest

from joulesim import catalogue
from joulesim.validate import carry, published, tables, wording

SHARED = Path(__file__).parents[3] / "shared" / "published"
MEASURED = ("throughput_tok_s", "itl_ms", "ttft_ms", "power_w", "energy_j_per_token", "energy_j_per_request")
COLUMNS = (
    "source_url", "date", "hardware", "hardware_variant", "num_gpus", "parallelism", "model", "weight_format", "kv_format",
    "runtime", "batch_concurrency", "prompt_tokens", "output_tokens", "context", "phase", "throughput_scope", *MEASURED,
    "energy_boundary", "energy_derivation", "accuracy_task", "accuracy", "accuracy_n", "notes",
)
ROWS = {
    "argonne": {
        "date": "2024-09", "hardware": "Nvidia H100 GPU", "num_gpus": "1", "parallelism": "TP1", "model": "Deci/DeciLM-7B",
        "weight_format": "FP16/BF16", "kv_format": "16-bit", "runtime": "vLLM", "batch_concurrency": "16",
        "prompt_tokens": "1024", "output_tokens": "1024", "phase": "whole static batch: prefill L + decode L",
        "throughput_scope": "output tokens = B*L/latency (source column counts in+out tokens)", "throughput_tok_s": "1500",
        "power_w": "500", "energy_j_per_token": "0.3333", "energy_boundary": "chip (pynvml mean power)"},
    "joulebench": {
        "date": "2026-03", "hardware": "NVIDIA A100 80GB PCIe", "num_gpus": "1", "model": "Qwen/Qwen2.5-7B-Instruct",
        "weight_format": "fp16", "runtime": "HF Transformers generate", "batch_concurrency": "8", "prompt_tokens": "224.0",
        "output_tokens": "1600.0", "phase": "whole request static batch", "throughput_scope": "output tokens all sequences",
        "throughput_tok_s": "230", "power_w": "160", "energy_j_per_token": "0.43",
        "energy_boundary": "chip (NVML 100 ms), IDLE BASELINE SUBTRACTED"},
    "bitsandbytes": {
        "date": "2026-02-15", "hardware": "A800 80GB", "hardware_variant": "stock (AutoDL cloud)", "num_gpus": "1",
        "model": "Mistral-7B-Instruct-v0.3", "weight_format": "INT8 pure (bnb llm_int8_threshold=0)", "kv_format": "FP16",
        "runtime": "HF transformers + bitsandbytes", "batch_concurrency": "1", "output_tokens": "256",
        "phase": "decode-dominated", "throughput_scope": "aggregate", "throughput_tok_s": "19", "power_w": "131",
        "energy_j_per_token": "6.88", "energy_boundary": "GPU board (NVML 10 Hz)",
        "accuracy_task": "teacher-forced perplexity (own corpus)", "accuracy": "9.6", "accuracy_n": "14123"},
    "ollama": {
        "date": "2026-09", "hardware": "RTX 4060 Ti", "hardware_variant": "160 W limit", "num_gpus": "1",
        "model": "Llama-3.2-3B", "weight_format": "GGUF Q4_K_M", "kv_format": "f16 default", "runtime": "Ollama",
        "batch_concurrency": "1", "prompt_tokens": "270.32", "output_tokens": "81.075", "phase": "mixed",
        "throughput_scope": "decode tok/s (single stream)", "throughput_tok_s": "103", "power_w": "110",
        "energy_j_per_token": "1.154", "energy_boundary": "GPU board (NVML, per-request window)"},
    "power limits": {
        "date": "2026", "hardware": "NVIDIA RTX 5000 Ada (250 W max; inferred)", "hardware_variant": "power cap 100 W",
        "num_gpus": "1", "model": "qwen2.5.3b", "weight_format": "Ollama default tag (normally Q4_K_M)",
        "kv_format": "F16 (default)", "runtime": "Ollama", "batch_concurrency": "1",
        "phase": "whole request (short prompt, decode dominated)", "throughput_tok_s": "91.2", "power_w": "84.4",
        "energy_j_per_token": "0.926", "energy_boundary": "chip/board (nvidia-smi power.draw, 0.1 s)",
        "notes": "legacy summary; total 907.966 s, 76628.4 J, 82793 tokens over ~50 prompts"},
    "orin": {
        "date": "2025-08", "hardware": "NVIDIA Jetson AGX Orin 64GB", "hardware_variant": "MAXN (per paper)", "num_gpus": "1",
        "model": "DeepSeek-R1-Distill-Qwen-1.5B", "weight_format": "FP16/BF16", "runtime": "vLLM (Jetson)",
        "batch_concurrency": "1", "prompt_tokens": "512", "output_tokens": "640", "phase": "decode",
        "throughput_scope": "single stream decode", "throughput_tok_s": "40.56", "power_w": "22.8",
        "energy_j_per_token": "0.575", "energy_boundary": "GPU+SoC rail (tegrastats VDD_GPU_SOC)"},
    "strix halo": {
        "date": "2025-08", "hardware": "AMD Ryzen AI Max+ 395 (Radeon 8060S, 128 GB LPDDR5X-8000)",
        "hardware_variant": "Framework Desktop, default (120 W-class)", "num_gpus": "1", "model": "llama 7B Q4_K - Medium",
        "weight_format": "GGUF Q4_K_M", "kv_format": "F16", "runtime": "llama.cpp-rocwmma -fa 1", "prompt_tokens": "4096",
        "output_tokens": "0", "phase": "prefill", "throughput_scope": "single stream", "throughput_tok_s": "242",
        "power_w": "80", "energy_j_per_token": "0.331", "energy_boundary": "SoC package (amdgpu PPT via lm-sensors, 1 Hz)"},
    "tudelft": {
        "date": "2026-02", "hardware": "Tesla T4 16GB (Colab)", "hardware_variant": "70 W", "num_gpus": "1",
        "model": "Meta-Llama-3.1-8B-Instruct", "weight_format": "Q5_K_M", "kv_format": "F16", "runtime": "llama-cpp-python",
        "batch_concurrency": "1", "prompt_tokens": "~20", "output_tokens": "<=256", "phase": "request",
        "throughput_scope": "256 / request time (assumes the cap is reached)", "throughput_tok_s": "19.1", "power_w": "65",
        "energy_j_per_token": "3.4", "energy_boundary": "GPU (NVML 100 ms)"},
}


def write(path, rows):
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def point(tmp_path, name, **change):
    table = tables.read(write(tmp_path / "t.csv", [ROWS[name] | change]))
    assert not table.faults, table.faults
    return table.points[0]


def reason(tmp_path, name, **change):
    table = tables.read(write(tmp_path / "t.csv", [ROWS[name] | change]))
    return str(table.faults[1])


def test_a_static_batch_is_prefilled_and_decoded_whole(tmp_path):
    p = point(tmp_path, "argonne")
    assert (p.phase, p.boundary, p.batch, p.prompt_tokens, p.output_tokens) == ("static", "board", 16, 1024, 1024)


@pytest.mark.parametrize(("date", "runtime"), [("2024-09", "vllm-v0"), ("2025-11", "vllm"), ("", "vllm")])
def test_vllm_is_the_engine_of_its_time(tmp_path, date, runtime):
    assert point(tmp_path, "argonne", date=date).runtime == runtime


@pytest.mark.parametrize(("text", "runtime"), [("TensorRT-LLM", "tensorrt-llm"), ("Deepspeed-MII", "deepspeed-mii")])
def test_other_engines_are_not_taken_for_vllm(tmp_path, text, runtime):
    assert point(tmp_path, "argonne", runtime=text).runtime == runtime


def test_gh200_is_not_an_h100(tmp_path):
    assert point(tmp_path, "argonne", hardware="Nvidia GH200 GPU").hardware == "gh200"


def test_watts_that_are_milliwatts_are_refused(tmp_path):
    said = reason(tmp_path, "argonne", power_w="575184", energy_j_per_token="383.456")
    assert "power_w: looks like mW: 575184 W for 1 x 700 W; divide it by 1000" in said
    assert "is more than the devices can draw" in reason(tmp_path, "argonne", power_w="5000", energy_j_per_token="3.3333")


def test_tokens_of_all_sequences_are_shared_between_them(tmp_path):
    p = point(tmp_path, "joulebench")
    assert (p.batch, p.prompt_tokens, p.output_tokens) == (8, 28, 200)


def test_energy_above_idle(tmp_path):
    above = point(tmp_path, "joulebench")
    gross = point(tmp_path, "joulebench", energy_boundary="chip (NVML 100 ms)")
    assert (above.gross, gross.gross) == (False, True)
    net, whole = published.predict_points([above.blank(), gross.blank()._replace(row=2)])
    assert net.energy < whole.energy
    assert net.power == pytest.approx(whole.power)
    assert net.throughput == pytest.approx(whole.throughput)


@pytest.mark.parametrize(("text", "weights", "runtime"), [
    ("FP16", "f16", "transformers"), ("NF4 (bitsandbytes)", "nf4", "transformers-nf4"),
    ("INT8 (bitsandbytes)", "int8", "transformers-int8"), ("INT8 Pure", "int8", "transformers-int8-pure"),
    ("INT8 pure (bnb llm_int8_threshold=0)", "int8", "transformers-int8-pure"),
])
def test_kernels_of_bitsandbytes_are_runtimes_of_their_own(tmp_path, text, weights, runtime):
    p = point(tmp_path, "bitsandbytes", weight_format=text)
    assert (p.weights, p.runtime, p.phase) == (weights, runtime, "request")


def test_a_perplexity_is_no_accuracy(tmp_path):
    assert point(tmp_path, "bitsandbytes").accuracy is None
    assert point(tmp_path, "bitsandbytes", accuracy_task="gsm8k", accuracy="0.8").accuracy == 0.8
    assert point(tmp_path, "bitsandbytes", accuracy_task="gsm8k", accuracy="80").accuracy is None


def test_a_request_with_the_rate_of_its_decode(tmp_path):
    p = point(tmp_path, "ollama")
    assert (p.phase, p.power_cap, p.weights, p.runtime) == ("request, decode rate", 160, "q4_k_m", "llama.cpp-cuda")
    whole, decode = published.predict_points(
        [p.blank()._replace(phase="request"), p.blank()._replace(row=2)])
    assert decode.throughput > whole.throughput  # the prompt takes time too
    assert decode.energy == pytest.approx(whole.energy)


def test_lengths_of_a_run_and_its_requests(tmp_path):
    p = point(tmp_path, "power limits")
    assert p.output_tokens == pytest.approx(82793 / 50)
    assert (p.power_cap, p.phase) == (100, "request")


def test_a_rail_is_a_chip_and_leaves_out_memory(tmp_path):
    rail = point(tmp_path, "orin")
    assert (rail.boundary, rail.phase, rail.runtime) == ("chip", "decode", "vllm-jetson")
    board = rail.blank()._replace(boundary="board", row=2)
    chip, whole = published.predict_points([rail.blank(), board])
    assert chip.energy < whole.energy


def test_decoded_tokens_are_all_decoded(tmp_path):
    one = point(tmp_path, "strix halo", phase="decode", prompt_tokens="0", output_tokens="1", batch_concurrency="1")
    (row,) = published.predict_points([one.blank()])
    assert row.throughput == pytest.approx(1 / row.itl)


def test_a_prefill_is_per_prompt_token(tmp_path):
    p = point(tmp_path, "strix halo")
    assert (p.phase, p.batch, p.prompt_tokens, p.boundary, p.power_cap) == ("prefill", 1, 4096, "chip", 120)
    assert p.runtime == "llama.cpp-rocm"


def test_flags_that_change_a_call_are_another_runtime(tmp_path):
    assert "unknown runtime 'llama.cpp-vulkan -b -b 256'" in reason(tmp_path, "strix halo", runtime="llama.cpp-vulkan -b -b 256")


def test_contaminated_power_is_not_read(tmp_path):
    text = "run too short: power contaminated by load/idle, J/token left blank"
    p = point(tmp_path, "strix halo", energy_derivation=text, energy_j_per_token="")
    assert p.power is None
    assert p.output_throughput == 242


def test_approximate_lengths(tmp_path):
    p = point(tmp_path, "tudelft")
    assert (p.prompt_tokens, p.output_tokens, p.power_cap) == (20, 256, 70)
    assert point(tmp_path, "tudelft", prompt_tokens="one puzzle prompt (not stated)").prompt_tokens == 0


@pytest.mark.parametrize(("hardware", "runtime"), [
    ("Apple M4 Max", "llama.cpp-metal"), ("RTX 3060 12GB", "llama.cpp-cuda"),
    ("AMD Ryzen AI Max+ 395 (Radeon 8060S, 128 GB LPDDR5X-8000)", "llama.cpp-rocm"),
])
def test_ollama_chooses_its_back_end_by_the_device(tmp_path, hardware, runtime):
    assert point(tmp_path, "tudelft", runtime="Ollama", hardware=hardware, hardware_variant="").runtime == runtime


@pytest.mark.parametrize(("model", "weights", "meant"), [
    ("meta-llama/Llama-3.1-405B-Instruct-FP8", "fp8", None), ("openai/gpt-oss-120b", "mxfp4", None),
    ("Llama-2-70B-chat", "FP8", "fp8_e4m3"), ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "fp8", "fp8_block128"),
])
def test_a_checkpoint_in_its_own_format_or_a_16_bit_one_quantised(tmp_path, model, weights, meant):
    assert point(tmp_path, "argonne", model=model, weight_format=weights).weights == meant


@pytest.mark.parametrize(("variant", "watts"), [
    ("power limit 300 W each", 300), ("80 W limit", 80), ("power cap 150 W", 150), ("70 W", 70), ("stock (AutoDL cloud)", None),
    ("425 W TDP, stock (AutoDL cloud)", None), ("i7-8700K host", None), ("", None),
    ("NVIDIA H200 (8x H200-SXM-141GB, MaxQ, TensorRT); MaxQ GPU power limit 350 W/GPU", 350),
])
def test_power_limits_in_words(variant, watts):
    found = wording.CAP.search(variant)
    assert (float(next(filter(None, found.groups()))) if found else None) == watts


@pytest.mark.parametrize(("notes", "flagged"), [
    ("LOW TRUST: short run, sampling 1 s", True), ("VOIDED by its authors", True), ("do not fit", True), ("FLAG: x", True),
    ("CPU thread scaling", False), ("", False),
])
def test_warnings_take_a_row_out_of_fits(tmp_path, notes, flagged):
    assert bool(point(tmp_path, "argonne", notes=notes).flag) is flagged


@pytest.mark.parametrize(("name", "change", "said"), [
    ("argonne", {"energy_boundary": ""}, "energy_boundary: expected one of wall, chip, board, got nothing"),
    ("argonne", {"power_w": "-1"}, "power_w: expected 0.001 to 1e+09, got '-1'"),
    ("argonne", {"output_tokens": "0"}, "output_tokens: expected at least one token, got 0"),
    ("argonne", {"energy_j_per_token": "333.3"}, "energy_j_per_token: looks like mJ"),
    ("argonne", {"model": "google/gemma-9"}, "unknown model 'google/gemma-9'"),
    ("argonne", {"hardware": "GTX 9999"}, "unknown hardware 'GTX 9999'"),
    ("argonne", {"kv_format": "3-bit"}, "unknown kv_format '3-bit'"),
    ("strix halo", {"model": "llama 13B Q4_K - Medium"}, "unknown model"),  # a file of 14.5 GB is no Llama 13B
    ("strix halo", {"weight_format": "GGUF UD-Q6_K_XL"}, "unknown weight_format"),
])
def test_rows_that_cannot_be_used_say_why(tmp_path, name, change, said):
    assert said in reason(tmp_path, name, **change)


def test_wall_energy_needs_a_host_and_a_supply(tmp_path):
    p = point(tmp_path, "argonne", energy_boundary="wall (AC, whole server)")
    (row,) = published.predict_points([p.blank()])
    assert row.energy is None
    assert "hardware.system.psu_efficiency is unknown" in row.reason
    assert row.throughput > 0


def test_blank_measured_columns_change_nothing_for_any_table(tmp_path):
    rows = list(ROWS.values())
    whole = published.predict_file(write(tmp_path / "a.csv", rows))
    blank = published.predict_file(write(tmp_path / "b.csv", [r | dict.fromkeys(MEASURED, "") for r in rows]))
    assert [r.cells() for r in whole] == [r.cells() for r in blank]
    assert all(r.energy for r in whole), [r.reason for r in whole]


@pytest.mark.parametrize("table", [t for t in published.shipped() if t != "mlenergy_v3"])
def test_shipped_tables_are_what_the_sources_say(table):
    kept = published.load(table)
    assert kept, table
    for p in kept:
        assert p.table == table
        assert p.hardware in catalogue.names("hardware")
        assert p.model in catalogue.names("model")
        assert p.runtime in catalogue.names("runtime")
        assert p.source.startswith("https://")
        assert p.energy_per_token is not None or p.power is not None


def test_thinning_keeps_the_first_of_every_kind():
    points = [published.load("ollama_consumer_energy")[0]._replace(row=n, hardware=h) for n in range(6) for h in ("t4", "l4")]
    kept = carry.thinned(points, 4)
    assert [(p.row, p.hardware) for p in kept] == [(0, "t4"), (0, "l4"), (4, "t4"), (4, "l4")]
    assert carry.thinned([points[0].blank()], 1) == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published tables are not here")
def test_the_mislabelled_watts_of_the_argonne_table_are_found():
    faults = tables.read(SHARED / "argonne_power.csv").faults.values()
    assert sum("looks like mW" in str(fault) for fault in faults) == 60

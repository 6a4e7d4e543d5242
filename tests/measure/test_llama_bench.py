"""llama-bench in all its formats."""

import json

import pytest

from joulesim.errors import InputError
from joulesim.measure.importers.llama_bench import read_llama_bench

from .reference import published

SAMPLES = [6863.1, 7147.55, 7136.37, 7115.79, 7237.21]
ENTRY = {
    "build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "AMD Ryzen 7", "gpu_info": "RTX 4080",
    "backends": "CUDA", "model_filename": "qwen2.5-1.5b.gguf", "model_type": "qwen2 1.5B Q4_K - Medium",
    "n_batch": 2048, "n_ubatch": 512, "n_threads": 8, "type_k": "f16", "type_v": "f16", "n_gpu_layers": 99,
    "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 72135640, "stddev_ns": 1453752,
    "avg_ts": 7100.002165, "stddev_ts": 140.341520, "samples_ts": SAMPLES,
}  # fmt: skip
DECODE = {**ENTRY, "n_prompt": 0, "n_gen": 128, "avg_ns": 1_000_000_000, "avg_ts": 128.0, "stddev_ts": 1.0,
          "samples_ts": []}  # fmt: skip


@pytest.fixture
def bench(tmp_path):
    """Write a file and read it."""

    def write_and_read(text):
        path = tmp_path / "bench.out"
        path.write_text(text)
        return read_llama_bench(path)

    return write_and_read


def said(records):
    return [str(fault).split("bench.out")[1] for fault in records.faults]


def test_rate_is_the_mean_of_the_repeats(bench):
    """Case llama_bench-03: pp512 is 7100.0 +- 140.3 t/s; 512 tokens over the mean time would be 7097.7."""
    (record,) = bench(json.dumps([ENTRY])).all_or_error()
    assert record.throughput.prompt == published("llama_bench-03", "mean rate")
    assert record.throughput.sd == pytest.approx(published("llama_bench-03", "standard deviation"), abs=0.05)
    of_mean_time = record.tokens.prompt / record.time
    assert of_mean_time == pytest.approx(published("llama_bench-03", "rate of the mean time"), abs=0.05)
    assert record.throughput.samples == tuple(SAMPLES)
    assert (record.energy, record.energy_reason.code) == (None, "no-power-in-file")
    assert (record.device.names, record.runtime.backend, record.runtime.version) == (
        ("RTX 4080",),
        "CUDA",
        "5163",
    )
    assert record.scenario["workload"] == {"prompt_tokens": 512, "output_tokens": 0, "context": 0}
    assert record.validity.verdict == "valid"


def test_spread_from_the_samples_alone(bench):
    entry = {name: value for name, value in ENTRY.items() if name not in ("avg_ts", "stddev_ts")}
    (record,) = bench(json.dumps([entry]))
    assert record.throughput.prompt == pytest.approx(7100.004)
    assert record.throughput.sd == pytest.approx(published("llama_bench-03", "standard deviation"), abs=0.05)


def test_rate_that_is_not_the_mean_of_its_samples(bench):
    records = bench(json.dumps([ENTRY | {"avg_ts": 6000.0}, DECODE]))
    assert len(records) == 1
    assert said(records) == [
        ": entry 1: avg_ts is 6000, the mean of samples_ts is 7100; the row is left out, one of them is damaged"
    ]


def test_decode_has_a_time_per_token(bench):
    (record,) = bench(json.dumps([DECODE]))
    assert record.throughput.output == 128.0
    assert record.latency.tpot.mean == 1.0 / 128


def test_banner_before_json(bench):
    """ggml-org/llama.cpp#15554: back ends print before the JSON begins."""
    banner = "ggml_cuda_init: found 1 CUDA devices:\n[info] Device 0: RTX 4080\n"
    assert len(bench(banner + json.dumps([ENTRY, DECODE], indent=2)).all_or_error()) == 2
    lines = banner + "\n".join(json.dumps(entry) for entry in (ENTRY, DECODE))
    assert len(bench(lines).all_or_error()) == 2


def test_json_that_breaks_off(bench):
    with pytest.raises(InputError, match="expected a JSON array, it breaks off or is damaged"):
        bench(json.dumps([ENTRY, DECODE], indent=2)[:-20])
    records = bench(json.dumps(ENTRY) + "\n" + json.dumps(DECODE)[:-20])
    assert len(records) == 1
    assert said(records) == [":2: expected one JSON object, the line breaks off or is damaged"]
    assert said(bench(json.dumps([ENTRY, 5]).replace("[{", "[\n{"))) == [": entry 2: expected an object"]


def as_csv(*entries):
    names = [name for name in ENTRY if name != "samples_ts"]
    lines = [",".join(names), *(",".join(f'"{entry[name]}"' for name in names) for entry in entries)]
    return "\n".join(lines) + "\n"


def test_csv(bench):
    records = bench(as_csv(ENTRY, DECODE)).all_or_error()
    assert records[0].throughput.prompt == ENTRY["avg_ts"]
    assert records[1].throughput.output == 128.0
    assert records[0].source.line == 2


def test_ragged_csv_is_refused_by_line_and_never_shifted(bench):
    """Case llama_bench-01: the README's own sample has 42 names over rows of 41 values."""
    text = as_csv(ENTRY, DECODE)
    header, first, second = text.splitlines()
    ragged = "\n".join([header, first.replace('"0",', "", 1), second])
    records = bench(ragged)
    assert len(records) == 1
    count = len(ENTRY) - 1
    assert said(records) == [
        f":2: expected {count} cells as in the header, got {count - 1}; the row is left out, cells are never shifted"
    ]


def test_old_and_unknown_columns(bench):
    """Case llama_bench-08: columns come and go; they are taken by name."""
    text = "build_commit,cuda,model_type,n_prompt,n_gen,avg_ts,new_column\nabc,1,llama 7B,512,0,100.0,?\n"
    (record,) = bench(text).all_or_error()
    assert (record.runtime.backend, record.throughput.prompt) == ("cuda", 100.0)
    assert record.scenario["workload"]["context"] == 0


def test_sql(bench):
    names = [name for name in ENTRY if name != "samples_ts"]
    values = ", ".join(f"'{ENTRY[name]}'" for name in names)
    insert = f"INSERT INTO llama_bench ({', '.join(names)}) VALUES ({values});"
    records = bench("CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT\n);\n" + insert + "\n")
    assert records.all_or_error()[0].throughput.prompt == ENTRY["avg_ts"]
    short = insert.replace("VALUES ('8cf427ff', ", "VALUES (")
    (fault,) = said(bench(short))
    assert fault.endswith("got 19; the row is left out, values are never shifted")


TABLE = """| model | size | params | backend | ngl | test | t/s |
| --- | ---: | ---: | --- | --: | ---: | ---: |
{row}

build: 8cf427ff (5163)
"""


def pasted(test, rate="100.00 ± 1.00"):
    return TABLE.format(
        row=f"| llama 1B Q4_K - Medium | 636.18 MiB | 1.10 B | Vulkan | 99 | {test} | {rate} |"
    )


@pytest.mark.parametrize(
    ("test", "prompt", "output", "depth"),
    [
        ("pp 512", 512, 0, 0),
        ("pp512", 512, 0, 0),
        ("tg 128", 0, 128, 0),
        ("tg128 @ d512", 0, 128, 512),
        ("pp2048 @ d4096", 2048, 0, 4096),
        ("pp4096+tg128", 4096, 128, 0),
    ],
)
def test_names_of_tests(bench, test, prompt, output, depth):
    """Case llama_bench-06: the column "test" over the years."""
    (record,) = bench(pasted(test)).all_or_error()
    assert record.scenario["workload"] == {"prompt_tokens": prompt, "output_tokens": output, "context": depth}
    assert (record.runtime.version, record.runtime.build) == ("5163", "8cf427ff")


def test_mixed_rate_is_neither_prefill_nor_decode(bench):
    (record,) = bench(pasted("pp4096+tg128"))
    assert (record.throughput.prompt, record.throughput.output) == (None, None)
    assert record.throughput.mixed == 100.0
    assert record.validity.codes == ("mixed-rate",)
    assert record.validity.verdict == "invalid"


@pytest.mark.parametrize("rate", ["7100.00 ± 140.30", "7100.00 +- 140.3", "7100.00 +/- 140.3", "7100.00"])
def test_spellings_of_a_rate(bench, rate):
    (record,) = bench(pasted("pp512", rate))
    assert record.throughput.prompt == 7100.0


def test_first_run_is_not_to_be_used(bench):
    """Case llama_bench-05: pp512 at 10802.35 +- 9881.63 t/s, a first run that compiled its shaders."""
    (record,) = bench(pasted("pp512", "10802.35 ± 9881.63"))
    variation = published("llama_bench-05", "coefficient of variation")
    assert [str(reason) for reason in record.validity.reasons] == [
        f"first-run: coefficient of variation {variation}"
    ]
    assert record.validity.verdict == "invalid"


def test_high_variation_is_suspect(bench):
    (record,) = bench(pasted("tg128", "100.00 ± 8.00"))
    assert [str(reason) for reason in record.validity.reasons] == [
        "high-variation: coefficient of variation 0.08"
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "| llama 1B | 636.18 MiB | 1.10 B | Vulkan | pp512 | 1.0 |",
            "expected 7 cells as in the header, got 6",
        ),
        (
            "| llama 1B | 1 MiB | 1.10 B | Vulkan | 99 | warmup | 1.0 |",
            "test: expected a test such as pp512 or tg128",
        ),
        (
            "| llama 1B | 1 MiB | 1.10 B | Vulkan | 99 | pp512 | fast |",
            "t/s: expected a rate such as 7100.00 ± 140.3",
        ),
    ],
)
def test_rows_of_a_table_that_cannot_be_used(bench, row, message):
    records = bench(TABLE.format(row=row) + "\n" + pasted("pp512"))
    assert len(records) == 1
    (fault,) = said(records)
    assert fault.startswith(":3: ") and message in fault


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"avg_ts": None, "samples_ts": []}, "expected avg_ts or samples_ts, got neither"),
        ({"n_prompt": 0}, "expected n_prompt or n_gen above 0, got neither"),
        ({"n_prompt": "many"}, "n_prompt: expected a number, got 'many'"),
        ({"n_prompt": 0.5}, "n_prompt: expected a whole number, got 0.5"),
        ({"stddev_ts": -1.0}, "greater than or equal to 0"),
    ],
)
def test_entries_that_cannot_be_used(bench, change, message):
    records = bench(json.dumps([ENTRY | change]))
    assert len(records) == 0
    assert message in said(records)[0]


def test_neither_format(bench):
    with pytest.raises(InputError, match="expected the output of llama-bench in JSON, CSV, Markdown or SQL"):
        bench("main: build = 1\n")

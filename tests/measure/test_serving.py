"""vLLM's results and request logs: clocks, TPOT, failures, two token counts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.measure.importers.request_log import Request, read_requests
from joulesim.measure.importers.vllm_bench import read_vllm_bench

from .reference import published

RESULT = {
    "date": "20250115-123456", "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "tokenizer_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 100, "request_rate": "inf",
    "burstiness": 1.0, "max_concurrency": 64, "duration": 20.0, "completed": 100, "total_input_tokens": 51200,
    "total_output_tokens": 12800, "request_throughput": 5.0, "request_goodput": 4.0, "output_throughput": 640.0,
    "total_token_throughput": 3200.0, "mean_ttft_ms": 120.0, "median_ttft_ms": 100.0, "std_ttft_ms": 30.0,
    "p99_ttft_ms": 400.0, "mean_tpot_ms": 11.5, "p99.9_itl_ms": 50.0, "mean_e2el_ms": 1600.0,
}  # fmt: skip


@pytest.fixture
def result(tmp_path):
    """Write results and read them."""

    def write_and_read(*results, **more):
        path = tmp_path / "result.json"
        path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in results))
        return read_vllm_bench(path, **more)

    return write_and_read


def said(records):
    return [str(fault).split("result.json")[1] for fault in records.faults]


def test_result(result):
    (record,) = result(RESULT).all_or_error()
    assert (record.time, record.throughput.output, record.throughput.mixed) == (20.0, 640.0, 3200.0)
    assert (record.throughput.requests, record.throughput.goodput) == (5.0, 4.0)
    assert record.latency.ttft.mean == 0.12
    assert record.latency.ttft.percentiles == {"99": 0.4}
    assert record.latency.itl.percentiles == {"99.9": 0.05}
    assert (record.latency.tpot.mean, record.latency.e2e_latency.mean) == (0.0115, 1.6)
    assert record.scenario["workload"] == {"prompt_tokens": 512.0, "output_tokens": 128.0}
    assert record.scenario["serving"] == {"batch": 64}
    assert (record.tokens.failed, record.validity.verdict) == (0, "valid")
    assert (record.energy, record.energy_reason.code) == (None, "no-power-in-file")


def test_failed_requests(result):
    """Case serving-03: failed requests have no tokens and are in no mean; they are counted."""
    (record,) = result({**RESULT, "num_prompts": 104})
    assert record.tokens.failed == 4
    assert [str(reason) for reason in record.validity.reasons] == ["requests-failed: 4 of 104 failed"]
    assert result({**RESULT, "failed": 2})[0].tokens.failed == 2


def test_two_token_counts(result):
    """Case serving-04: 56814 generated tokens, 50731 when tokenised again: 12 % apart."""
    output, again = (published("serving-04", n) for n in ("output tokens", "output tokens, counted again"))
    counts = {"total_output_tokens": output, "total_output_tokens_retokenized": again}
    (record,) = result({**RESULT, **counts, "output_throughput": output / 20.0})
    assert output / again == pytest.approx(1.12, abs=0.005)
    assert (record.tokens.output, record.tokens.output_recounted) == (output, again)
    detail = "counts-disagree: 56814 output tokens, 50731 when tokenised again"
    assert [str(reason) for reason in record.validity.reasons] == [detail]


def test_output_that_is_not_as_long_as_asked(result):
    """Case serving-05: one client got 300 tokens, the other 1023, and their latencies were compared."""
    (record,) = result(RESULT, output_tokens=1024)
    detail = "length-differs: 128 tokens on average, 1024 asked for"
    assert [str(reason) for reason in record.validity.reasons] == [detail]
    assert result(RESULT, output_tokens=130)[0].validity.reasons == ()


def test_several_results(result):
    records = result(
        RESULT, "{broken", {"hello": 1}, {**RESULT, "request_rate": 4.0, "max_concurrency": None}
    )
    assert len(records) == 2
    assert records[1].scenario["serving"] == {"request_rate": 4.0}
    assert said(records) == [
        ":2: expected one JSON object, the line breaks off or is damaged",
        ":3: expected a result of vllm bench serve (duration, completed, ...), got something else; "
        "save it with --save-result",
    ]
    assert len(result(json.dumps([RESULT, RESULT]))) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"duration": 0}, "duration: expected more than 0 s, got 0"),
        (
            {"output_throughput": 64.0},
            "output_throughput: is 64/s, 12800 in 20 s are 640/s; the result is left out",
        ),
        ({"request_throughput": 50.0}, "request_throughput: is 50/s, 100 in 20 s are 5/s"),
        ({"mean_ttft_ms": -5.0}, "greater than or equal to 0"),
    ],
)
def test_results_that_contradict_themselves(result, change, message):
    records = result({**RESULT, **change})
    assert len(records) == 0
    assert message in said(records)[0]


TRACE = {"input_len": 600, "output_len": 531, "queued_ts": 27536.660701067, "first_token_ts": 27537.350135653,
         "last_token_ts": 27554.231018618, "arrival_time": 1787267980.08}  # fmt: skip
SCENARIO = {"model": "llama-3.1-8b", "runtime": "vllm"}


@pytest.fixture
def requests(tmp_path):
    """Write a request log and read it."""

    def write_and_read(*traces, **more):
        path = tmp_path / "requests.jsonl"
        path.write_text("\n".join(t if isinstance(t, str) else json.dumps(t) for t in traces))
        return read_requests(path, SCENARIO, **more)

    return write_and_read


def test_times_of_one_clock(requests):
    """Case serving-01: TTFT 0.689 s and TPOT 31.85 ms, both on the engine's clock."""
    (record,) = requests(TRACE).all_or_error()
    assert record.latency.ttft.mean == pytest.approx(published("serving-01", "TTFT"), abs=5e-4)
    assert record.latency.tpot.mean == pytest.approx(published("serving-01", "TPOT"), abs=5e-6)
    assert record.window.clock == "engine monotonic"
    assert record.window.started_at.startswith("2026-08-20T")
    assert record.time == pytest.approx(TRACE["last_token_ts"] - TRACE["queued_ts"])


def test_arrival_time_alone_is_of_no_use(requests):
    trace = {name: value for name, value in TRACE.items() if name != "queued_ts"}
    records = requests(TRACE, trace)
    (fault,) = records.faults
    assert (
        "requests.jsonl:2: expected queued_ts (the engine's clock), got nothing; arrival_time is on"
        in str(fault)
    )


def test_one_token_has_no_tpot_and_counts_as_0_for_goodput(requests):
    """Case serving-03."""
    one = {**TRACE, "output_len": 1, "last_token_ts": TRACE["first_token_ts"]}
    (record,) = requests(TRACE, one, limits={"ttft": 1.0, "tpot": 0.02})
    assert record.latency.tpot.n == 1
    assert record.latency.ttft.n == 2
    assert record.throughput.goodput == pytest.approx(1 / record.time)


def test_failed_requests_are_in_no_mean(requests):
    (record,) = requests(
        TRACE, {**TRACE, "output_len": 0}, {**TRACE, "first_token_ts": None}, limits={"ttft": 9}
    )
    assert (record.tokens.requests, record.tokens.failed, record.tokens.output) == (1, 2, 531)
    assert record.validity.codes == ("requests-failed",)
    assert record.throughput.goodput == pytest.approx(1 / record.time)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "expected one JSON object; the request is left out"),
        ({"queued_ts": 1.0}, "expected output_len, got nothing"),
        (
            {**TRACE, "first_token_ts": 1.0},
            "expected queued, first and last token in order, got 27536.660701067, 1.0",
        ),
    ],
)
def test_requests_that_cannot_be_read(requests, line, message):
    records = requests(TRACE, line)
    assert len(records) == 1
    assert message in str(records.faults[0])


def test_log_without_output(requests):
    with pytest.raises(InputError, match="expected requests with output, found none"):
        requests({**TRACE, "output_len": 0})


@given(
    st.floats(0, 1e6), st.floats(0.001, 10), st.integers(2, 5000), st.floats(1e-4, 1.0), st.floats(-1e9, 1e9)
)
def test_latencies_do_not_depend_on_the_clock(queued, wait, output, gap, offset):
    """Shifting the engine's clock changes no latency, and e2e = ttft + (output - 1) * tpot."""
    first = queued + wait
    one = Request(queued, first, first + (output - 1) * gap, 1, output)
    assert one.e2e_latency == pytest.approx(one.ttft + (output - 1) * one.tpot, rel=1e-6)
    moved = Request(queued + 7.0, first + 7.0, one.last_token + 7.0, 1, output, arrival=offset)
    assert (moved.ttft, moved.tpot) == pytest.approx((one.ttft, one.tpot), rel=1e-4, abs=1e-8)

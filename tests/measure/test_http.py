"""Streaming from servers that behave, hang, break off, refuse and lie."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import joulesim as js
from joulesim.measure.runtimes.http import Engine, complete


class Handler(BaseHTTPRequestHandler):
    """A server whose behaviour is the model's name."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        how = asked["model"]
        if how == "broken":
            self.send_error(500, "out of memory")
            return
        self.send_response(200)
        self.end_headers()
        if how == "hangs":
            time.sleep(3)
            return
        if how == "babbles":
            self.wfile.write(b"data: {not json\n\n")
            return
        n = asked["max_tokens"]
        for i in range(n):
            if how == "truncates" and i == 2:
                return
            time.sleep(0.002)
            done = i == n - 1
            self._send({"choices": [{"text": f"t{i} ", "finish_reason": "length" if done else None}]})
        prompt = asked["prompt"]
        self._send({"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": n}})
        self.wfile.write(b"data: [DONE]\n\n")

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"version": "9.9"}')

    def _send(self, event):
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_tokens_and_their_times(address):
    found = complete(address, "hello", 5, "good")
    assert (found.text, found.finish, found.output_tokens, found.prompt_tokens) == ("t0 t1 t2 t3 t4 ", "length", 5, 5)
    assert len(found.token_times) == 5
    assert list(found.token_times) == sorted(found.token_times)
    assert found.token_times[-1] <= found.time


def test_an_address_may_end_in_v1(address):
    assert complete(address + "/v1", "hello", 1, "good").finish == "length"


@pytest.mark.parametrize(("model", "said"), [
    ("broken", "HTTP 500"), ("truncates", "the stream ended before the answer did"), ("hangs", "timed out"),
    ("babbles", "JSONDecodeError"),
])
def test_failures_are_answers_that_failed(address, model, said):
    found = complete(address, "hello", 5, model, silence=0.3)
    assert found.finish == "failed"
    assert said in found.failure
    assert found.output_tokens == len(found.token_times)


def test_nobody_there():
    found = complete("http://127.0.0.1:9", "hello", 5, "good", silence=0.5)
    assert found.finish == "failed" and "refused" in found.failure


def test_engine_measures_steps_and_names_the_server(address):
    engine = Engine()
    opened = engine.open("good", {"address": address})
    assert opened["version"] == "9.9"
    call = {"phase": "decode", "sequences": 2, "depth": 16}
    engine.prepare(call)
    times = engine.run(call, "wall", 0.0, 2.0, 3)
    assert times["cpu"] == [] and len(times["wall"]) >= 3
    assert all(0 <= t < 1 for t in times["wall"]) and max(times["wall"]) > 0
    with pytest.raises(ValueError, match="chunk: a server makes no such call"):
        engine.prepare({"phase": "chunk", "tokens": 4})


def test_engine_reports_requests_that_fail(address):
    engine = Engine()
    engine.open("broken", {"address": address})
    with pytest.raises(RuntimeError, match="1 of 1 requests failed: HTTP 500"):
        engine.prepare({"phase": "prefill", "tokens": 8})


def test_answers_run_together(address):
    engine = Engine()
    engine.open("good", {"address": address})
    assert [a["output_tokens"] for a in engine.generate(["a", "b", "c"], 4, concurrency=3)] == [4, 4, 4]


def test_a_server_is_asked_for_whole_requests(address):
    prefill, decode = js.measure("qwen2.5-0.5b-raspberry-pi-5", "http", address=address, model_name="good")
    assert (prefill.clock, decode.clock) == ("wall", "wall") and decode.latency.e2e_latency.median > 0
    assert decode.runtime.settings["model"] == "good" and decode.scenario["model"] == {"name": "qwen2.5-0.5b-instruct"}

"""Parity over HTTP: a server that goes on from its cache, one that does not, and ones that cannot be asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from joulesim.cli import main
from joulesim.measure.parity import compare
from joulesim.measure.runtimes.slot import Slot

VOCABULARY = 500


class Handler(BaseHTTPRequestHandler):
    """llama.cpp's server with one slot, whose next token is a sum of the last two; its kernel for many rows rounds off."""

    def do_GET(self):
        if not self.server.is_llama:
            self._say({"object": "list", "data": [{"id": "gpt"}]} if self.path == "/v1/models" else {"error": "none"},
                      200 if self.path == "/v1/models" else 404)
        elif self.path == "/props":
            self._say({"default_generation_settings": {"n_ctx": 512}, "build_info": "b1"})
        else:
            self._say({"data": [{"id": "m", "meta": {"n_vocab": VOCABULARY}}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self._say({"tokens": [2, *(ord(c) for c in asked["content"][:4])]})
        prompt, held = asked["prompt"], self.server.held
        assert asked["n_predict"] == 1 and asked["id_slot"] == 0 and asked["cache_prompt"]
        same = 0
        while same < min(len(held), len(prompt) - 1) and held[same] == prompt[same] and self.server.keeps:
            same += 1
        rows, self.server.held = len(prompt) - same, list(prompt)
        likely = [(prompt[-1] + prompt[-2]) % VOCABULARY, 7, 9]
        off = self.server.off if rows >= 4 else 0.0
        values = [-0.1 - off, -0.2, -3.0] if likely[0] not in likely[1:] else [-0.1, -0.2]
        top = sorted(zip(dict.fromkeys(likely), values, strict=False), key=lambda pair: -pair[1])
        told = [{"top_logprobs": [{"id": token, "logprob": value} for token, value in top]}]
        self._say({"timings": {"cache_n": same, "prompt_n": rows}, "tokens": [top[0][0]],
                   **({} if self.server.silent else {"completion_probabilities": told})})

    def _say(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.is_llama, served.keeps, served.silent, served.off, served.held = True, True, False, 0.0, []
    served.address = f"http://127.0.0.1:{served.server_port}"
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield served
    served.shutdown()


def parity(server, capsys):
    status = main(["measure", "--parity", "--runtime", "http", "--address", server.address, "--prompts", "2", "--tokens", "8"])
    return status, capsys.readouterr()


def test_blocks_are_compared_by_their_last_rows(server, capsys):
    status, said = parity(server, capsys)
    assert status == 0
    assert "largest difference of log-probabilities" in said.out and "16 of 16 repeated single steps are bit-identical" in said.out
    assert "one position a block is compared, and no draft is verified" in said.out


@pytest.mark.parametrize(("off", "agreed"), [(0.0, 4), (0.05, 4), (0.5, 0)])
def test_a_kernel_that_rounds_otherwise_is_found(server, off, agreed):
    server.off = off
    slot = Slot(server.address)
    found = compare(slot, [slot.tokens("a"), slot.tokens("bcd")], 8, [2, 4], every=False)
    assert (found.blocks[0].positions, found.blocks[0].agreed, found.blocks[0].largest_difference) == (8, 8, 0.0)
    assert (found.blocks[1].positions, found.blocks[1].agreed) == (4, agreed)
    assert found.blocks[1].largest_difference == pytest.approx(off)
    assert found.blocks[1].first_difference == (3 if off > 0.1 else None)


def test_a_server_that_computes_everything_again_is_no_block(server, capsys):
    server.keeps = False
    status, said = parity(server, capsys)
    assert status == 2 and len(said.err.strip().splitlines()) == 1
    assert "expected a call of 1 rows, the server computed 6: it does not keep its cache" in said.err


def test_a_server_that_only_completes_is_refused(server, capsys):
    server.is_llama = False
    status, said = parity(server, capsys)
    assert status == 2 and len(said.err.strip().splitlines()) == 1
    assert "expected llama.cpp's server" in said.err and "an OpenAI-compatible server feeds no blocks" in said.err


def test_a_token_that_is_part_of_a_character_counts_and_shows_no_value(server):
    server.silent = True
    slot = Slot(server.address)
    found = compare(slot, [slot.tokens("a")], 8, [2], every=False)
    assert (found.blocks[0].positions, found.blocks[0].agreed, found.blocks[0].largest_difference) == (4, 4, 0.0)
    assert found.repeats_identical == found.repeats == 8


def test_nobody_there(server, capsys):
    server.shutdown()
    server.server_close()
    status, said = parity(server, capsys)
    assert status == 2 and said.err.strip() == (
        f"joulesim: runtime http, model: parity: {server.address}: nothing answers there (Connection refused); start llama.cpp's "
        "server, or give its address with --address")


def test_a_runtime_without_logits_says_so(capsys):
    assert main(["measure", "--parity", "--runtime", "fake"]) == 2
    assert capsys.readouterr().err.strip().endswith(
        "runtime fake, model: parity: expected an engine that takes tokens in blocks and shows what it thinks of each; this one "
        "gives texts alone, --runtime llama_cpp, llama_server or transformers does it")

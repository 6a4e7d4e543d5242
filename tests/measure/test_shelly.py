"""A Shelly plug, played by a local HTTP server."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from joulesim.measure.meters import shelly
from joulesim.measure.meters.base import MeterAbsent

from .clock import Clock, run

GEN1 = {
    "/shelly": {"type": "SHPLG-S", "auth": False, "fw": "20230913"},
    "/status": {"meters": [{"power": 61.5, "is_valid": True, "total": 3310, "timestamp": 1}]},
}
GEN1_3EM = {
    "/shelly": {"type": "SHEM-3", "auth": False},
    "/status": {"emeters": [{"power": p, "is_valid": True, "total": 5.0} for p in (100.0, 50.0, 11.5)]},
}
GEN2 = {
    "/shelly": {"id": "shellyplusplugs-1", "gen": 2, "app": "PlusPlugS", "auth_en": False},
    "/rpc/Switch.GetStatus?id=0": {"id": 0, "apower": 87.2, "voltage": 231.0, "aenergy": {"total": 12.345}},
}
GEN2_METER = {
    "/shelly": {"gen": 3, "app": "PM1G3"},
    "/rpc/PM1.GetStatus?id=0": {"id": 0, "apower": 12.5},
}


class Plug:
    """A server that answers from a dictionary: plain data, a status code, raw bytes, or a time to be silent."""

    def __init__(self, answers):
        self.answers = answers
        plug = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answer = plug.answers.get(self.path, 404)
                if isinstance(answer, float):
                    time.sleep(answer)
                    answer = {}
                code = answer if isinstance(answer, int) else 200
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                with contextlib.suppress(ConnectionError):  # the client may have given up
                    self.send_response(code)
                    self.send_header("Content-Length", str(len(body) + plug.missing_bytes))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.missing_bytes = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def plug():
    made = []

    def make(answers):
        made.append(Plug(dict(answers)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("answers", "watts", "model"),
    [
        (GEN1, 61.5, "Shelly SHPLG-S"),
        (GEN1_3EM, 161.5, "Shelly SHEM-3"),
        (GEN2, 87.2, "Shelly PlusPlugS"),
        (GEN2_METER, 12.5, "Shelly PM1G3"),
    ],
)
def test_generations(plug, answers, watts, model):
    clock = Clock()
    meter = shelly.open_meter(plug(answers).address, clock=clock, threaded=False)
    reading = run(meter, clock, 120.0, step=1.0)
    assert reading.energy == pytest.approx(watts * 120.0)
    assert (meter.info.boundary, meter.device().names) == ("wall", (model,))
    assert meter.info.shortest_window == 100.0


def test_short_window_is_refused(plug):
    clock = Clock()
    meter = shelly.open_meter("http://" + plug(GEN2).address, clock=clock, threaded=False)
    assert run(meter, clock, 60.0, step=1.0).energy_reason.code == "window-too-short"


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        (500, "/status answers 500"),
        (b'{"meters": [{"po', "/status does not answer in JSON"),
        (1.0, "does not answer (timed out)"),
        ({"meters": [{"power": 0.0, "is_valid": False}]}, "no power in the answer"),
        ({"meters": []}, "no power in the answer"),
    ],
)
def test_faults_while_measuring(plug, fault, detail):
    clock, server = Clock(), plug(GEN1)
    meter = shelly.open_meter(server.address, timeout=0.1, clock=clock, threaded=False)
    meter.start()
    clock.sleep(120.0)
    server.answers["/status"] = fault
    reading = meter.stop()
    assert reading.energy is None
    assert detail in reading.energy_reason.detail


def test_a_failed_poll_costs_a_sample(plug):
    clock, server = Clock(), plug(GEN1)
    meter = shelly.open_meter(server.address, clock=clock, threaded=False)

    def during(t):
        server.answers["/status"] = 500 if t == 60.0 else GEN1["/status"]

    reading = run(meter, clock, 120.0, step=1.0, during=during)
    assert reading.energy == pytest.approx(61.5 * 120.0)
    assert {reason.code for reason in reading.reasons} == {"samples-dropped", "power-integrated"}


def test_answer_that_breaks_off(plug):
    clock, server = Clock(), plug(GEN1)
    meter = shelly.open_meter(server.address, timeout=0.5, clock=clock, threaded=False)
    meter.start()
    clock.sleep(120.0)
    server.missing_bytes = 40
    assert meter.stop().energy_reason.code == "driver-error"


@pytest.mark.parametrize(
    ("answers", "code", "detail"),
    [
        (
            {**GEN1, "/shelly": {"type": "SHPLG-S", "auth": True}},
            "no-permission",
            "the device asks for a password",
        ),
        ({**GEN2, "/shelly": {"gen": 2, "auth_en": True}}, "no-permission", "the device asks for a password"),
        ({"/shelly": {"type": "SHSW-1"}, "/status": {}}, "no-meter", "Shelly SHSW-1 does not meter power"),
        ({"/shelly": {"gen": 2, "app": "Plus1"}}, "no-meter", "Shelly Plus1 does not meter power"),
        ({"/shelly": [1]}, "no-meter", "the device does not answer as a Shelly does"),
        ({}, "no-meter", "/shelly answers 404"),
        ({"/shelly": b"<html>"}, "no-meter", "/shelly does not answer in JSON"),
    ],
)
def test_what_is_no_meter(plug, answers, code, detail):
    info = shelly.probe(plug(answers).address)
    assert (info.available, info.reason.code) == (False, code)
    assert info.reason.detail.endswith(detail)


def test_nobody_answers():
    with pytest.raises(MeterAbsent, match=r"127.0.0.1:1 does not answer \(.*refused.*\); check the address"):
        shelly.open_meter("127.0.0.1:1")

"""Report of a local validation: one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from joulesim.validate.local import HEADS, QUERIES, ROWS, Constant, LocalFit
from joulesim.validate.local_answers import HEADERS, cells
from joulesim.validate.local_errors import Errors
from joulesim.validate.local_points import Points
from joulesim.validate.local_result import FitResult

_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#2c7a7b")
_STYLE = ("body{font:15px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#1a202c}"
          "table{border-collapse:collapse;margin:1em 0}"
          "td,th{padding:.2em .7em;border-bottom:1px solid #e2e8f0;text-align:right}"
          "td:first-child,th:first-child{text-align:left}"
          "svg{background:#fafafa;margin:.5em 1em .5em 0}.miss{color:#c53030}"
          ".note{color:#4a5568}")
_SIDE, _EDGE = 360, 48


def sections(found: dict[str, Any], result: FitResult) -> str:
    """The whole page."""
    fitted, calls = result.fitted, result.calls
    tested = calls.of(lambda r: r.campaign.role == "test" and r.scenario["axis"] != "model")
    parts = [
        f"<h1>{_text(found['title'])}</h1>", f"<p class=note>{_text(found['verdict'])}</p>",
        "<h2>Machine</h2>", _table(("", ""), found["machine"].items()),
        "<h2>Meters</h2>", _table(("meter", "works", "boundary", "what it says"), found["meters"]),
        f"<p>{_text(found['joules'])}</p>",
        "<h2>Errors where nothing was fitted</h2>", _errors(result.errors),
        *_answers(found["answers"]),
        "<h2>Predicted against measured, held-out calls</h2>", _parity(fitted, tested), _residuals(fitted, tested),
        "<h2>What a call of N rows costs</h2>", _batch_curve(fitted), _context_curve(fitted, calls),
        "<h2>Constants</h2>", _constants(fitted),
        "<h2>What could not be identified</h2>", _unidentified(result),
        "<h2>How it was measured</h2>", _table(("", ""), found["campaign"].items()),
    ]
    body = "\n".join(parts)
    head = f"<meta charset=utf-8><title>{_text(found['title'])}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}<body>{body}</body></html>\n"


def _text(value: Any) -> str:
    return html.escape("" if value is None else str(value))


def _table(headers: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{_text(h)}</th>" for h in headers)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _errors(errors: Sequence[Errors]) -> str:
    rows = []
    for e in errors:
        bar = "none" if e.bar is None else f"{e.bar[0]:g} / {e.bar[1]:g}"
        noise, repeat = (("one round",) * 2 if math.isnan(e.noise_median) else
                         (f"{e.noise_median:.1f} / {e.noise_p90:.1f}", f"{e.repeat_median:.1f} / {e.repeat_p90:.1f}"))
        mark = "" if e.passed else " class=miss"
        rows.append(f"<tr{mark}><td>{_text(e.axis)}</td><td>{e.phase}</td><td>{e.count}</td><td>{e.median:.1f}</td>"
                    f"<td>{e.p90:.1f}</td><td>{e.bias:+.1f}</td><td>{noise}</td><td>{repeat}</td><td>{bar}</td></tr>")
    head = "".join(f"<th>{h}</th>" for h in ("held out", "calls", "number", "median error, %", "90th percentile, %",
                                             "bias, %", "noise of this run, %", "as timed, %", "bar, %"))
    return (f"<table><tr>{head}</tr>{''.join(rows)}</table>"
            "<p class=note>Noise: how far two rounds of the same call are apart, median and 90th percentile, once what a probe "
            "of the core's speed beside each of them explains is taken off; as timed: with it. An error is of the mean of a "
            "call's rounds.</p>")


def _answers(found: Sequence[dict[str, Any]]) -> list[str]:
    """Tasks, where any was answered."""
    if not found:
        return []
    return ["<h2>Seconds per correct answer</h2>", _table(HEADERS, map(cells, found)),
            "<p class=note>Lengths and correctness are those of the run; the time of its calls is predicted. The predicted "
            "interval holds the errors of the constants and those on held-out calls of the same kinds.</p>"]


class _Axes:
    """A plot with logarithmic axes."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], x: str, y: str, log_y: bool = True):
        self._parts: list[str] = []
        self._log_y = log_y
        self.x = self._bounds([math.log10(v) for v in xs])
        self.y = self._bounds([math.log10(v) if log_y else v for v in ys])
        mid, end = _SIDE / 2, _SIDE - _EDGE / 2
        side, look = end - _EDGE, "font-size=12 text-anchor=middle"
        self._parts += [
            f"<rect x={_EDGE} y={_EDGE / 2} width={side} height={side} fill=none stroke='#a0aec0' />",
            f"<text x={mid} y={_SIDE - 6} {look}>{_text(x)}</text>",
            f"<text transform='translate(12 {mid}) rotate(-90)' {look}>{_text(y)}</text>",
        ]
        for at, is_x in ((self.x, True), (self.y, False)):
            for value in at:
                label = f"{10 ** value:.3g}" if is_x or log_y else f"{value:.3g}"
                px, py = (self._px(value), _SIDE - _EDGE / 2 - 8) if is_x else (_EDGE - 4, self._py(value))
                anchor = "middle" if is_x else "end"
                self._parts.append(f"<text x={px:.0f} y={py:.0f} font-size=10 text-anchor={anchor}>{label}</text>")

    @staticmethod
    def _bounds(values: Sequence[float]) -> tuple[float, float]:
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        pad = 0.05 * (high - low) or 0.5
        return low - pad, high + pad

    def _px(self, x: float) -> float:
        return _EDGE + (x - self.x[0]) / (self.x[1] - self.x[0]) * (_SIDE - 1.5 * _EDGE)

    def _py(self, y: float) -> float:
        return _SIDE - _EDGE - (y - self.y[0]) / (self.y[1] - self.y[0]) * (_SIDE - 1.5 * _EDGE)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return self._px(math.log10(x)), self._py(math.log10(y) if self._log_y else y)

    def dots(self, xs, ys, colour: str) -> None:
        for x, y in zip(xs, ys, strict=True):
            px, py = self._at(x, y)
            self._parts.append(f"<circle cx={px:.1f} cy={py:.1f} r=2.5 fill='{colour}' fill-opacity=.6 />")

    def line(self, xs, ys, colour: str) -> None:
        path = " ".join("{:.1f},{:.1f}".format(*self._at(x, y)) for x, y in zip(xs, ys, strict=True))
        self._parts.append(f"<polyline points='{path}' fill=none stroke='{colour}' />")

    def legend(self, names: Sequence[str]) -> None:
        for i, (name, colour) in enumerate(zip(names, _COLOURS * 3, strict=False)):
            at = f"x={_EDGE + 6} y={_EDGE / 2 + 14 + 13 * i}"
            self._parts.append(f"<text {at} font-size=11 fill='{colour}'>{_text(name)}</text>")

    def svg(self) -> str:
        return f"<svg width={_SIDE} height={_SIDE} role=img>{''.join(self._parts)}</svg>"


def _kinds(calls: Points) -> list[str]:
    return sorted({r.scenario["weights"] for r in calls.records})


def _parity(fitted: LocalFit, calls: Points) -> str:
    if not len(calls):
        return "<p>Nothing was held out.</p>"
    predicted = fitted.predict(calls)
    plot = _Axes(calls.time, predicted, "measured, s", "predicted, s")
    edges = [min(calls.time.min(), predicted.min()), max(calls.time.max(), predicted.max())]
    plot.line(edges, edges, "#a0aec0")
    for kind, colour in zip(_kinds(calls), _COLOURS * 3, strict=False):
        mine = np.array([r.scenario["weights"] == kind for r in calls.records])
        plot.dots(calls.time[mine], predicted[mine], colour)
    plot.legend(_kinds(calls))
    return plot.svg()


def _residuals(fitted: LocalFit, calls: Points) -> str:
    """Signed errors by format: what they share is the work, what differs is the unpacking."""
    if not len(calls):
        return ""
    signed = 100 * (fitted.predict(calls) / calls.time - 1)
    plot = _Axes([1, 600], signed, "rows of the call", "error, %", log_y=False)
    plot.line([1, 600], [0, 0], "#a0aec0")
    for kind, colour in zip(_kinds(calls), _COLOURS * 3, strict=False):
        mine = np.array([r.scenario["weights"] == kind for r in calls.records])
        plot.dots(np.clip(calls.rows[mine], 1, 600), signed[mine], colour)
    plot.legend(_kinds(calls))
    return plot.svg()


def _batch_curve(fitted: LocalFit) -> str:
    """Time of a weight and row against rows."""
    table = fitted.table()
    plot = _Axes(ROWS, [t for row in table.values() for t in row], "rows of a call", "time per weight and row, s")
    for (_, row), colour in zip(table.items(), _COLOURS * 3, strict=False):
        plot.line(ROWS, row, colour)
    plot.legend(list(table))
    rows = [(kind, *(f"{n * t / row[0]:.2f}" for n, t in zip(ROWS, row, strict=True))) for kind, row in table.items()]
    return plot.svg() + _table(("step of N rows over one row", *map(str, ROWS)), rows)


def _context_curve(fitted: LocalFit, calls: Points) -> str:
    """Decode steps against the depth of their cache, measured and predicted."""
    mine = calls.of(lambda r: r.scenario["call"]["phase"] == "decode" and r.scenario["call"]["sequences"] == 1)
    if not len(mine):
        return ""
    depth = np.array([max(r.scenario["call"]["depth"], 1) for r in mine.records])
    plot = _Axes(depth, np.concatenate([mine.time, fitted.predict(mine)]), "cached tokens", "decode step, s")
    models = sorted({(r.scenario["model"]["name"], r.scenario["weights"]) for r in mine.records})
    deep = [m for m in models if len({d for d, r in zip(depth, mine.records, strict=True) if _key(r) == m}) > 1]
    for model, colour in zip(deep, _COLOURS * 3, strict=False):
        keep = np.array([_key(r) == model for r in mine.records])
        order = np.argsort(depth[keep])
        plot.dots(depth[keep], mine.time[keep], colour)
        plot.line(depth[keep][order], fitted.predict(mine.where(keep))[order], colour)
    plot.legend([" ".join(model) for model in deep[:8]])
    return plot.svg()


def _key(record) -> tuple[str, str]:
    return record.scenario["model"]["name"], record.scenario["weights"]


def _constants(fitted: LocalFit) -> str:
    found = {c.name: c for c in fitted.constants()}

    def shown(c: Constant, value: str) -> str:
        text = f"{value.rstrip()} ± {100 * c.stderr:.0f} %"
        return text if c.identified else f"({text})"

    def rate(c: Constant) -> str:
        return shown(c, f"{2e-9 / c.value:.4g} GFLOP/s")

    def look(c: Constant) -> str:
        return shown(c, f"{1e9 * c.value:.3g} ns")

    rows = [(kind, *(rate(found[f"{kind}@{n}"]) for n in ROWS)) for kind in fitted.formats]
    attention = [(n, *(look(found[f"attention@{n}x{d}"]) for d in HEADS)) for n in QUERIES]
    others = [(c.name, shown(c, f"{c.value:.3g} {_UNITS[c.name.partition(':')[2] or c.name]}"))
              for c in found.values() if "@" not in c.name]
    return (_table(("products, rows of a call", *map(str, ROWS)), rows)
            + _table(("attention a head and position, rows a sequence", *(f"{d} channels" for d in HEADS)), attention)
            + _table(("other constants", ""), others)
            + "<p class=note>± is one standard error of the logarithm; what is in brackets rests on its prior.</p>")


_UNITS = {"per_call": "s", "per_layer": "s", "per_sequence_layer": "s", "norm": "s", "silu": "s", "gelu": "s",
          "stream": "s/B", "resident_bytes": "B", "pass": "s/B", "near_cache": "B", "extra_columns": "columns",
          "core_exponent": "", "memory_exponent": "", "stream_exponent": ""}
"""Units of constants outside the tables."""


def _unidentified(result: FitResult) -> str:
    if not (missing := result.unidentified):
        return "<p>Every constant.</p>"
    errors = {c.name: c.stderr for c in result.constants()}
    rows = [(name, f"{100 * errors[name]:.0f} %", what) for name, what in missing.items()]
    return _table(("constant", "error", "what would identify it"), rows)

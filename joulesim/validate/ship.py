"""Write the constants that predictions use, from a fit and the errors on what it had not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from joulesim.constants import UNITS
from joulesim.validate import fit
from joulesim.validate.holdout import Scatter


def document(result: fit.FitResult, seen: dict[str, Scatter], unseen: Scatter | None, source: str) -> str:
    """
    YAML of fitted constants.

    Parameters
    ----------
    result : FitResult
        Fit with everything in.
    seen : dict
        Held-out scatter of each device of the fit, models left out.
    unseen : Scatter
        Scatter of devices left out; ``None`` where there is one device alone, which keeps the starting spreads.
    source : str
        What the constants rest on, for ``predict`` to print.
    """
    errors = dict(zip(result.free(), result.errors(), strict=True))
    lines = [
        f"# Fitted by `joulesim validate published --ship`; records {result.records_hash}. Not edited by hand.",
        "# stderr is of the logarithm. spread is 0 because the held-out scatter (time_residual, power_residual) already",
        "# holds the error of the constants.",
        f"source: \"{source}\"", f"records: {result.records_hash}", "shared:",
    ]
    for name, value in result.plan.fixed.items():
        lines.append(f"  {name}: {_entry(name, value, None)}")
    for i, p in enumerate(result.plan.parameters):
        if p.experts is None:
            error = float(np.hypot(errors[p.label], p.device_spread))
            lines.append(f"  {p.name}: {_entry(p.name, np.exp(result.shared[i]), error, p.relative)}")
    lines += _residuals(unseen, "devices left out") if unseen else []
    lines.append("devices:")
    for d, device in enumerate(result.devices):
        lines.append(f"  {device}:")
        for i, p in enumerate(result.plan.parameters):
            if p.device_spread:
                value = np.exp(result.shared[i] + result.deviations[d, i])
                lines.append(f"    {p.name}: {_entry(p.name, value, errors[f'{p.label} @ {device}'], p.relative)}")
        lines += ["  " + line for line in _residuals(seen[device], "models left out")]
    kernels = dict.fromkeys(p.experts for p in result.plan.parameters if p.experts)
    lines += ["experts:"] if kernels else []
    for kernel in kernels:
        lines.append(f"  {kernel}:")
        for i, p in enumerate(result.plan.parameters):
            if p.experts == kernel:
                lines.append(f"    {p.name}: {_entry(p.name, np.exp(result.shared[i]), errors[p.label])}")
    return "\n".join(lines) + "\n"


def _residuals(scatter: Scatter, what: str) -> list[str]:
    return [f"  {name}_residual: {{value: 1, spread: {value:.3g}, ref: \"scatter of {what}\"}}"
            for name, value in zip(("time", "power"), scatter, strict=True)]


_SCALES = {"second": ("us", 1e-6), "joule/byte": ("pJ/B", 1e-12), "joule/FLOP": ("pJ/FLOP", 1e-12), "joule": ("pJ", 1e-12),
           "byte": ("B", 1.0)}


def _entry(name: str, value: float, error: float | None, relative: bool = False) -> str:
    text = f"{value:.4g}"
    if relative:
        return f"{{factor: {text}, spread: 0, stderr: {error:.2g}}}"
    if UNITS.get(name):
        unit, size = _SCALES[UNITS[name]]
        text = f"{value / size:.4g} {unit}"
    if error is None:
        return f"{{value: {text}, spread: 0, kind: assumed}}"
    return f"{{value: {text}, spread: 0, stderr: {error:.2g}}}"


def write(text: str, path: Path) -> None:
    """Replace a constants file."""
    path.write_text(text, encoding="utf-8")

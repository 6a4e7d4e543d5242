"""Pictures of predictions; the only place where matplotlib is imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.explain import waterfall
from joulesim.formulas.roofline import arithmetic_intensity
from joulesim.prediction import Prediction

_COLOURS = {
    "static": "#8d99ae", "active": "#5c6b8a", "memory": "#2a9d8f", "compute": "#e9a23b", "unpack": "#d1495b",
    "link": "#4f86c6", "idle": "#c9cdd6", "host": "#7b5ea7", "psu_loss": "#b08968",
}


def _pyplot():
    try:
        import matplotlib
    except ImportError:
        raise InputError(Fault("--plot", "matplotlib is not installed", "pip install 'joulesim[plots]'")) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def tornado(effects, name: str, most: int = 20):
    """Elasticities of the energy per correct answer, the largest on top."""
    pyplot = _pyplot()
    shown = effects[:most][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.32 * len(shown) + 1.2))
    colours = {"constant": "#5c6b8a", "hardware": "#2a9d8f", "scenario": "#e9a23b"}
    axes.barh([e.name for e in shown], [e.elasticity for e in shown], color=[colours[e.group] for e in shown])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("change of energy per correct answer, % per % of the number")
    axes.set_title(name)
    axes.legend(handles=[pyplot.Rectangle((0, 0), 1, 1, color=c) for c in colours.values()], labels=list(colours))
    return figure


def save(figure, path: str) -> None:
    """Write a figure; the suffix names the kind of file."""
    kinds = figure.canvas.get_supported_filetypes()
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in kinds:
        raise InputError(Fault("--plot", f"expected a file name ending in .png, .svg or .pdf, got {path!r}"))
    try:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    except OSError as error:
        raise InputError(Fault("--plot", f"{path} cannot be written ({error.strerror})")) from None


def prediction(p: Prediction):
    """Waterfall of an answer's joules beside the scenario's roofline."""
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6))
    _waterfall(left, p)
    _roofline(right, p)
    figure.suptitle(f"{p.scenario.name}: {p.scenario.model.name} on {p.scenario.hardware.name}, batch {p.batch}")
    figure.tight_layout()
    plt.close(figure)
    return figure


def _waterfall(axes, p: Prediction) -> None:
    bars = waterfall(p)
    axes.set_title(f"One answer at the {p.scenario.boundary} boundary", fontsize=10)
    if not bars:
        axes.text(0.5, 0.5, f"energy unknown:\n{p.estimates['energy_per_answer'].reason}", ha="center", wrap=True,
                  transform=axes.transAxes)
        return
    shown = [bar for bar in bars if bar[2] > 0]
    values = np.array([value for *_, value in shown])
    starts = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    labels = [f"{phase} {name.replace('_', ' ')}" for phase, name, _ in shown]
    axes.barh(labels, values, left=starts, color=[_COLOURS[name] for _, name, _ in shown])
    estimate = p.estimates["energy_per_answer"]
    axes.barh(["sum"], [estimate.value], color="#333333",
              xerr=[[estimate.value - estimate.low], [estimate.high - estimate.value]], ecolor="#999999", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel(f"energy of one answer [J], bar: {p.level:.0%} interval")


def _roofline(axes, p: Prediction) -> None:
    x, c = p.inputs, p.constants
    bandwidth = x.memory_bandwidth * c["bandwidth_efficiency"].value
    rate = x.compute_rate * c["compute_efficiency"].value
    if not np.isfinite(bandwidth * rate):
        axes.text(0.5, 0.5, f"roofline unknown:\n{p.reasons.get('time', '')}", ha="center", wrap=True, transform=axes.transAxes)
        return
    ridge = rate / bandwidth
    intensity = np.geomspace(ridge / 1e3, ridge * 30, 200)
    axes.loglog(intensity, np.minimum(intensity * bandwidth, rate) / 1e12, color="#333333", label="sustained roofline")
    axes.loglog(intensity, np.minimum(intensity * x.memory_bandwidth, x.compute_rate) / 1e12, color="#bbbbbb", ls="--",
                label="datasheet")
    for stage, phase, mark in (("prefill", p.outcome.prefill, "s"), ("decode", p.outcome.decode, "o")):
        work, time = phase.work, float(np.asarray(phase.time).flat[0])
        flops = float(np.asarray(work.flops + work.narrow_flops).flat[0])
        moved = float(np.asarray(work.bytes).flat[0])
        if time > 0 and moved > 0 and flops > 0:
            axes.loglog(arithmetic_intensity(flops, moved), flops / time / 1e12, mark, ms=9, label=stage)
    axes.set_xlabel("arithmetic intensity [FLOP/B]")
    axes.set_ylabel("rate [TFLOP/s]")
    axes.set_title("Roofline: predicted phases under the sustained and the datasheet roof", fontsize=10)
    axes.legend(fontsize=8)


def parity(errors):
    """Predicted against measured energy and step time of held-out points, and their residuals over the batch."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.8))
    devices = sorted({p.hardware for p in errors.points})
    for device, colour in zip(devices, ("#2a9d8f", "#d1495b", "#5c6b8a", "#e9a23b"), strict=False):
        keep = np.array([p.hardware == device for p in errors.points])
        for panel, name, measured in (
            (axes[0], "energy", np.array([p.energy_per_token for p in errors.points])),
            (axes[1], "time", np.array([p.batch / p.output_throughput for p in errors.points])),
        ):
            panel.loglog(measured[keep], (measured * np.exp(errors.logs[name]))[keep], ".", color=colour, label=device)
        batch = np.array([p.batch for p in errors.points])
        axes[2].semilogx(batch[keep], 100 * np.expm1(errors.logs["energy"][keep]), ".", color=colour, label=device)
    for panel, unit in ((axes[0], "energy per token [J]"), (axes[1], "step time [s]")):
        ends = np.array(panel.get_xlim())
        panel.plot(ends, ends, color="#333333", lw=1)
        panel.fill_between(ends, ends / 1.2, ends * 1.2, color="#333333", alpha=0.1, label="within 20 %")
        panel.set_xlabel(f"measured {unit}")
        panel.set_ylabel(f"predicted {unit}")
        panel.legend(fontsize=8)
    axes[2].axhline(0, color="#333333", lw=1)
    axes[2].set_xlabel("running sequences")
    axes[2].set_ylabel("error of energy per token [%]")
    figure.suptitle(f"Held out by {errors.left_out}: {len(errors.points)} points")
    figure.tight_layout()
    plt.close(figure)
    return figure


def sweep(dataset, quantity: str):
    """A quantity over a sweep: lines over one number, a map over two, else the frontier against ``ttft``."""
    wide = [name for name, size in dataset.sizes.items() if size > 1]
    numbers = [name for name in wide if name in dataset.coords and dataset[name].dtype.kind == "f"]
    others = [name for name in wide if name not in numbers]
    if not numbers or len(numbers) > 2 or len(others) > (len(numbers) == 1):
        return frontier(dataset, "ttft", quantity)
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 4.8))
    found = dataset.squeeze()
    if len(numbers) == 2:
        x, y = sorted(numbers, key=found[quantity].dims.index, reverse=True)
        values = found[quantity].transpose(y, x).values
        mesh = axes.pcolormesh(found[x].values, found[y].values, np.ma.masked_invalid(values), shading="nearest",
                               cmap="viridis_r")
        figure.colorbar(mesh, label=_label(found[quantity]))
        axes.set_ylabel(_label(found[y]))
    else:
        x = numbers[0]
        for i in range(found.sizes[others[0]] if others else 1):
            line = found.isel({others[0]: i}) if others else found
            label = _named(line, others[0], i) if others else None
            axes.plot(line[x].values, line[quantity].values, "o-", ms=3, label=label)
        if others:
            axes.legend(fontsize=8, title=others[0])
        axes.set_ylabel(_label(found[quantity]))
    axes.set_xlabel(_label(found[x]))
    axes.set_title(dataset.attrs["title"], fontsize=10)
    plt.close(figure)
    return figure


def frontier(dataset, x: str, y: str):
    """Every point of a sweep by two quantities, and those that no other point beats."""
    from joulesim.sweep import views

    plt = _pyplot()
    best = views.frontier(dataset, [x, y])
    x, y = x.lstrip("-"), y.lstrip("-")
    figure, axes = plt.subplots(figsize=(7.5, 4.8))
    axes.plot(dataset[x].values.ravel(), dataset[y].values.ravel(), ".", ms=2, color="#bbbbbb", rasterized=True)
    axes.plot(best[x].values, best[y].values, "o-", ms=4, color="#2a9d8f", label="frontier")
    axes.set(xscale="log", yscale="log", xlabel=_label(dataset[x]), ylabel=_label(dataset[y]))
    axes.set_title(dataset.attrs["title"], fontsize=10)
    axes.legend(fontsize=8)
    plt.close(figure)
    return figure


def _label(variable) -> str:
    unit = variable.attrs.get("units", "")
    return f"{variable.name.replace('_', ' ')}{f' [{unit}]' if unit and unit != '1' else ''}"


def _named(line, dimension: str, position: int) -> str:
    return str(line[dimension].item()) if dimension in line.coords else f"{dimension} {position}"

"""
Sweeps: a scenario at many values of many fields, as one ``xarray.Dataset``.

:func:`sweep` reads what is swept (``axes``), cuts it into pieces (``plan``) and evaluates each on arrays (``points``);
``store`` keeps results that outgrow memory, ``cluster`` hands pieces to Dask workers.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import joulesim
from joulesim import uncertainty, units
from joulesim.constants import UNITS
from joulesim.errors import Fault, InputError
from joulesim.scenario import Scenario, load_scenario
from joulesim.specs.base import Spec
from joulesim.sweep import axes as swept
from joulesim.sweep import cluster, store
from joulesim.sweep import plan as planning
from joulesim.sweep.axes import Axis
from joulesim.sweep.plan import Plan, cut
from joulesim.sweep.progress import Progress


def sweep(
    scenario: Scenario | str,
    over: Mapping[str, Any],
    *,
    variables: Sequence[str] | None = None,
    intervals: bool = False,
    level: float = uncertainty.LEVEL,
    draws: int = 0,
    uncertain: Mapping[str, Any] | None = None,
    seed: int = 0,
    to=None,
    memory: float | str = "1 GB",
    client=None,
    progress: bool = False,
    text: bool = False,
):
    """
    A scenario at every combination of the values of some fields.

    Parameters
    ----------
    scenario : Scenario or str
        The deployment whose fields are swept, or its shipped name.
    over : mapping
        Dotted field to values: a dimension each. A name of your own to a mapping of fields to values: those change
        together along one dimension; :func:`joulesim.sobol` and :func:`joulesim.random_design` make such mappings.
    variables : sequence of str, optional
        Predicted quantities to keep; all of them by default.
    intervals : bool
        Whether to work out the interval of every quantity too, at several times the price.
    level : float
        Probability that each interval claims.
    draws : int
        Draws of the model's constants within their spread, along a last dimension ``draw``.
    uncertain : mapping, optional
        Field to its values in the draws: an array, or ``(value, spread)`` of a log-normal distribution.
    seed : int
        Of the draws.
    to : path, optional
        ``.zarr`` folder or ``.nc`` file to write to as results come. Called again after an interruption, the sweep goes
        on where it was.
    memory : str or float
        Most memory of a process while it writes to disk. [B]
    client : dask.distributed.Client or str, optional
        Cluster that does the work, or the address of its scheduler.
    progress : bool
        Whether to show progress and time left on standard error.
    text : bool
        Whether values come from text, where a quantity needs its unit.

    Returns
    -------
    xarray.Dataset
        A dimension per swept field and a variable per number of :meth:`Prediction.to_dict`, named by its path there.
        Nothing is dropped: where a deployment is not feasible values are ``nan``, and ``reason`` says why, with its
        legend in the attributes.

    Raises
    ------
    InputError
        With one line for each field that does not exist or does not take one of its values, and when results do not
        fit the memory or the disk.
    """
    plan = prepare(scenario, over, variables=variables, intervals=intervals, level=level, draws=draws,
                   uncertain=uncertain, seed=seed, text=text)
    with cluster.connected(client) as workers:
        if to is not None:
            return _on_disk(plan, Path(to), units.quantity(memory, "byte", "memory"), workers, progress)
        return dataset(plan, _in_memory(plan, workers, progress))


def _in_memory(plan: Plan, client, progress: bool) -> dict[str, np.ndarray]:
    """Every variable as an array."""
    _check_memory(plan)
    shown = Progress(plan.size, progress)
    if client is not None:
        return cluster.fill(plan, client, shown.advance)
    out = plan.allocate()
    for region in cut(plan.whole, _STEP):
        plan.fill(out, region)
        shown.advance(math.prod(s.stop - s.start for s in region))
    return out


_STEP = 1 << 22
"""Points between two looks at the clock."""


def _check_memory(plan: Plan) -> None:
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if plan.size * plan.bytes_per_point > free:
        raise InputError(Fault("sweep", f"expected results that fit {units.show(free, 'byte')} of free memory, got "
                               f"{store.arithmetic(plan)}",
                               "write them to disk (to=, -o FILE.zarr) or keep fewer variables"))


def _on_disk(plan: Plan, path: Path, memory: float, client, progress: bool):
    """Results of a sweep in a Zarr folder or a netCDF file, opened without reading them."""
    xarray = _xarray()
    if path.suffix not in (".zarr", ".nc"):
        raise InputError(Fault(str(path), "expected a path ending in .zarr or .nc"))
    as_netcdf = path.suffix == ".nc"
    if as_netcdf and path.exists():
        raise InputError(Fault(str(path), "expected no such file yet", "remove it or write to another path"))
    kept = store.Store(plan, path.with_name(path.name + ".partial") if as_netcdf else path, memory)
    if not kept.path.exists():
        store.check_disk(plan, path)
    kept.open(lambda folder: dataset(plan, {}).to_zarr(folder, mode="w", consolidated=False))
    shown = Progress(plan.size, progress, sum(map(kept.points, kept.done)))
    if client is not None:
        cluster.write(kept, client, shown.advance)
    for index in kept.left:
        region = kept.chunks[index]
        store.write_chunk(plan.part(region), region, str(kept.path))
        kept.finish(index)
        shown.advance(kept.points(index))
    if not as_netcdf:
        return xarray.open_dataset(path, engine="zarr", consolidated=False, chunks=None)
    dataset(plan, {}).to_netcdf(path.with_name(path.name + ".writing"), engine="h5netcdf")
    store.to_netcdf(kept, path)
    return xarray.open_dataset(path, engine="h5netcdf", chunks=None)


def prepare(scenario, over, *, variables=None, intervals=False, level=uncertainty.LEVEL, draws=0, uncertain=None,
            seed=0, text=False) -> Plan:
    """Plan of a sweep; parameters as in :func:`sweep`."""
    scenario = load_scenario(scenario)
    axes = swept.read(over, scenario, text)
    scores = {}
    if draws:
        drawn, scores = _draws(scenario, draws, uncertain or {}, seed)
        taken = {name for axis in axes for name in (*axis.numeric, *axis.discrete)} & set(drawn.numeric)
        if taken:
            raise InputError([Fault(name, "expected a field that is either swept or uncertain, got both")
                              for name in taken])
        axes.append(drawn)
    elif uncertain:
        raise InputError(Fault("uncertain", "expected a number of draws", "e.g. draws=1000"))
    return planning.make(scenario, axes, variables, level if intervals else None, scores)


def _draws(scenario: Scenario, draws: int, uncertain: Mapping[str, Any],
           seed: int) -> tuple[Axis, dict[str, np.ndarray]]:
    """Dimension of draws: values of uncertain fields, and a score for each constant."""
    random = np.random.default_rng(seed)
    scores = {name: random.standard_normal(draws) for name in UNITS}
    columns = {}
    for name, values in uncertain.items():
        if isinstance(values, tuple) and len(values) == 2:
            value, spread = values
            values = value * np.exp(spread * random.standard_normal(draws))
        columns[name] = values
    if not columns:
        return Axis("draw", draws), scores
    axis, = swept.read({"draw": columns}, scenario)
    if axis.discrete or axis.size != draws:
        raise InputError(Fault("uncertain", f"expected {draws} numbers of each field, got {axis.size}"))
    return axis, scores


def dataset(plan: Plan, arrays: Mapping[str, Any]):
    """The Dataset of a sweep from its arrays, in memory or lazy."""
    xarray = _xarray()
    dimensions = tuple(axis.name for axis in plan.axes)
    variables = {name: (dimensions, array) for name, array in arrays.items()}
    found = xarray.Dataset(variables, coordinates(plan), attributes(plan))
    for name, variable in found.data_vars.items():
        variable.attrs |= variable_attributes(plan, name)
    return found


def coordinates(plan: Plan) -> dict[str, Any]:
    """Coordinate of each swept field: numbers in canonical units, names of everything else."""
    found = {}
    for axis in plan.axes:
        for full, values in (axis.numeric | axis.discrete).items():
            name = axis.name if len(axis.numeric) + len(axis.discrete) == 1 and axis.name != "draw" else full
            attributes = {"field": full}
            if full in axis.numeric:
                attributes["units"] = units.symbol(swept.unit(full))
            else:
                values = axis.labels[full]
                if not all(isinstance(value, (int, float)) for value in values):
                    values = np.array(list(map(str, values)), dtype=object)
            found[name] = (axis.name, np.asarray(values), attributes)
    return found


def attributes(plan: Plan) -> dict[str, Any]:
    """What a reader of the file needs to repeat the sweep."""
    return {
        "title": f"joulesim sweep of {plan.scenario.name}",
        "scenario": json.dumps(plan.scenario.document, default=_plain, ensure_ascii=False),
        "joulesim_version": joulesim.__version__,
        "boundary": plan.scenario.boundary,
    } | ({"level": plan.level} if plan.level is not None else {})


def variable_attributes(plan: Plan, name: str) -> dict[str, Any]:
    """Unit of a variable; the legend of ``reason``."""
    if name == "reason":
        return {"flag_values": list(plan.legend), "flag_meanings": " ".join(f"reason_{code}" for code in plan.legend),
                "legend": json.dumps(plan.legend, ensure_ascii=False)}
    prices = plan.scenario.prices
    currency = next((amount[1] for amount in (prices.electricity, prices.hardware) if amount is not None), None)
    return {"units": planning.unit_of(name, currency)}


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, Spec) else str(value)


def _xarray():
    try:
        import xarray
    except ImportError:
        raise InputError(Fault("sweep", "xarray is not installed", "pip install 'joulesim[sweep]'")) from None
    return xarray

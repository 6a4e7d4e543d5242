"""The calls of a scenario, measured: what a prediction says about it can be held against them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from joulesim.errors import Fault, InputError
from joulesim.measure import host, meters, runtimes
from joulesim.measure.campaign import Progress, Runner
from joulesim.measure.meters.base import Meter
from joulesim.measure.plan import Calls, Campaign, Group
from joulesim.measure.probe import settings_of, usable
from joulesim.measure.records import Records, read_records
from joulesim.measure.runtimes.base import Runtime, Settings
from joulesim.measure.synth import Shape
from joulesim.models.mixes import KINDS
from joulesim.scenario import Scenario, load_scenario
from joulesim.specs.model import ModelSpec

ALIKE = 0.01
"""Share of its weights by which a synthetic model may miss the one that it stands for: norms and biases."""
_SECONDS = 2.0
"""Shortest time spent on a call; a meter that needs a longer window gets it. [s]"""


def measure(scenario: Scenario | str | os.PathLike, runtime: str | Runtime | None = None,
            meter: str | Meter | None = None, *, model: str | os.PathLike | None = None,
            records: str | os.PathLike | None = None, clock: Literal["wall", "cpu"] | None = None, rounds: int = 1,
            progress: Callable[[Progress], None] = lambda _: None, **settings: Any) -> Records:
    """
    Run the calls of a scenario on this machine: its prefill, a decode step halfway through its output, its verification.

    The device that the scenario names is not looked at: each record names the one that ran.

    Parameters
    ----------
    scenario : Scenario, str or path
        A scenario, its shipped name, or the path of its YAML.
    runtime : str or Runtime, optional
        Name of a runtime, which then runs in a process of its own, or a runtime; without it, the best one installed.
    meter : str or Meter, optional
        ``nvml``, ``rapl``, …, ``none``, or a meter, which stays open; without it, the first that answers.
    model : path, optional
        File with the weights (for a server, the model's name there). Without it, the ``.gguf`` that the scenario names,
        else random weights of the same shape, which take the same time and energy.
    records : path, optional
        File to append to and to go on with; without it nothing stays on disk.
    clock : {"wall", "cpu"}, optional
        Clock of times; without it CPU time for one thread on a CPU, else the wall.
    rounds : int
        How often all calls are gone through.
    progress : callable, optional
        Told after each record.
    **settings
        Fields of :class:`~joulesim.measure.runtimes.base.Settings`: ``threads=2``, ``gpu_layers=-1``, ``address="…"``.

    Returns
    -------
    Records
        One for each call and round, with its ``validity``, its ``clock``, and ``energy`` in J, which is ``None`` with an
        ``energy_reason`` where no meter gave it. A call that failed is a record too, with the verdict ``invalid``.

    Raises
    ------
    InputError
        When the scenario cannot be measured here, with what to change.

    Examples
    --------
    >>> for record in measure("gemma-3-270m-cpu", model="gemma-3-270m-q4_0.gguf"):      # doctest: +SKIP
    ...     print(record.campaign.point, record.latency.e2e_latency.median, record.clock, record.validity.verdict)
    """
    scenario = load_scenario(scenario)
    engine, chosen = _engine(runtime, settings)
    given = _file(scenario, model)
    kind = runtimes.known(engine).models
    campaign = campaign_of(scenario, shape_of(scenario.model) if kind and not given else None, rounds)
    if kind == ".gguf" and not given:
        _check_room(scenario)
    named = {scenario.model.name: given} if given else {}
    with contextlib.ExitStack() as stack:
        path = records or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="joulesim-"))) / "records.jsonl"
        if not isinstance(meter, Meter):
            meter = stack.enter_context(meters.open_beside(runtimes.name_of(engine), meter))
        runner = Runner(campaign, path, engine, chosen, meter, named, clock=clock, progress=progress,
                        declared=_plain(scenario))
        runner.run()
        mine = [r for r in read_records(path) if r.campaign.hash == runner.hash and r.campaign.role == "test"]
    order = {point.name: i for i, point in enumerate(campaign.points())}
    return Records(sorted(mine, key=lambda r: (r.campaign.repeat, order[r.campaign.point])))


def campaign_of(scenario: Scenario, shape: Shape | None, rounds: int = 1) -> Campaign:
    """The calls of a scenario as a campaign of one group; ``shape`` is that of a synthetic model."""
    model = scenario.model.name
    kv_format = scenario.kv_cache.name if scenario.kv_cache else scenario.model.kv_format or "f16"
    weights = scenario.weights.name if scenario.weights else scenario.model.weight_format or "f16"
    group = Group(role="test", axis="scenario", models=(model,), weights=(weights,), kv_format=kv_format,
                  calls=tuple(_calls(scenario)))
    return Campaign(name=scenario.name, title=scenario.title, rounds=rounds, point_time=_SECONDS,
                    longest_point=5 * _SECONDS, shapes={model: shape} if shape else {}, groups=(group,))


def _calls(scenario: Scenario) -> Iterator[Calls]:
    """Prefill of one prompt, a decode step halfway through the output, and the step that verifies a draft."""
    workload, faults = scenario.workload, []
    for field in ("prompt_tokens", "output_tokens"):
        if not isinstance(getattr(workload, field), (int, float)):
            what = "expected one length to measure at, got a distribution"
            faults.append(Fault(f"workload.{field}", what, f'scenario.replace({{"workload.{field}": 500}}) gives one'))
    spread = {name: n for name, n in scenario.serving.parallelism.model_dump(exclude={"sources"}).items() if n > 1}
    faults += [Fault(f"serving.parallelism.{name}", f"expected one device to measure on, got {n}",
                     f'scenario.replace({{"serving.parallelism.{name}": 1}})') for name, n in spread.items()]
    if not faults and (fault := workload.prefix_fault()):
        faults.append(fault)
    if faults:
        raise InputError(faults)
    prompt, batch = round(workload.prompt_tokens), scenario.serving.batch
    shared = round(workload.shared_prefix_tokens)
    output = min(workload.output_tokens + workload.thinking_tokens, workload.max_output_tokens or float("inf"))
    halfway = prompt + round(output / 2)
    if prompt > shared:
        yield Calls(phase="prefill", tokens=(prompt - shared,), depth=(shared,))
    yield Calls(phase="decode", sequences=(batch,), depth=(halfway,))
    if scenario.speculation.method != "none":
        yield Calls(phase="chunk", sequences=(batch,), tokens=(scenario.speculation.draft_length + 1,), depth=(halfway,))


def shape_of(model: ModelSpec) -> Shape:
    """
    Sizes of a synthetic model that stands for another.

    Raises
    ------
    InputError
        When the model is not of the family that can be written: other attention than full, experts in some layers
        only, matrices that this family does not have.
    """
    mixer, down = model.mixers[0], [t for t in model.tensors if KINDS.get(t.name.rpartition(".")[2]) == "down"]
    fault = Fault(f"model {model.name}", "expected full attention and equal layers, whose weights can be made up, got "
                  f"{', '.join(sorted({m.kind for m in model.mixers}))} attention in {len(model.mixers)} kinds of layers",
                  "give the file of its weights: measure(..., model=PATH)")
    if len(model.mixers) > 1 or mixer.kind != "full" or not down:
        raise InputError(fault)
    experts = {"experts": model.experts.routed, "experts_used": model.experts.per_token} if model.experts else {}
    shape = Shape(width=model.hidden_size, layers=model.layers, heads=mixer.query_heads, kv_heads=mixer.kv_heads,
                  head_dim=mixer.key_width, ffn=down[0].columns, vocabulary=model.vocabulary,
                  tied=model.tied_embeddings, **experts)
    if abs(shape.parameters / model.parameters - 1) > ALIKE:
        what = (f"expected the matrices of a Llama, {shape.parameters / 1e6:.4g} million weights, got "
                f"{model.parameters / 1e6:.4g} million")
        raise InputError(Fault(f"model {model.name}", what, fault.remedy))
    return shape


def _engine(runtime: str | Runtime | None, settings: dict[str, Any]) -> tuple[str | Runtime, Settings]:
    if isinstance(runtime, Runtime):
        return runtime, settings_of(runtime, settings)
    found = usable(runtime, **settings)
    return found.name, found.settings


def _file(scenario: Scenario, model: str | os.PathLike | None) -> str | None:
    """File of the weights: the one that was given, or the one that the scenario names."""
    if model is not None:
        return str(model)
    named = scenario.document.get("model")
    if not str(named).endswith(".gguf"):
        return None
    places = [Path(scenario._base or "") / str(named), Path(str(named))]
    return str(next((path for path in places if path.is_file()), named))


def _check_room(scenario: Scenario) -> None:
    """Refuse to make up more weights than memory holds."""
    wanted, there = sum(row.bytes for row in scenario.weight_rows), host.memory()
    if there and wanted > there:
        what = f"expected weights that fit the {there / 1e9:.3g} GB of this machine, got {wanted / 1e9:.3g} GB"
        raise InputError(Fault(f"model {scenario.model.name}", what, "choose a smaller model or weights of fewer bits"))


def _plain(scenario: Scenario) -> dict[str, Any]:
    """The scenario as it was declared; what is no plain data, as text."""
    return json.loads(json.dumps(scenario.document, default=str))

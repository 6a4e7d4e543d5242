"""A campaign as declared: which calls of which models in which formats, and on which side of the split each stands."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import groupby, product
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.measure.record import content_hash
from joulesim.measure.runtimes.base import Call, Phase, Settings
from joulesim.measure.synth import SHAPES, Shape
from joulesim.specs.base import Count, Spec, Whole, positive, read_spec

_CALL_SIZES = ("sequences", "tokens", "depth")


class Calls(Spec):
    """Calls that differ in sizes: each field is a number or several."""

    phase: Phase
    sequences: tuple[Count, ...] = (1,)
    tokens: tuple[Count, ...] = (1,)
    depth: tuple[Whole, ...] = (0,)

    @field_validator(*_CALL_SIZES, mode="before")
    @classmethod
    def _several(cls, value):
        return value if isinstance(value, (list, tuple)) else (value,)

    def each(self) -> Iterator[Call]:
        """The calls, one by one."""
        for sequences, tokens, depth in product(self.sequences, self.tokens, self.depth):
            yield Call(phase=self.phase, sequences=sequences, tokens=tokens, depth=depth)


class Group(Spec):
    """Models times formats times calls, all on one side of the split."""

    role: Literal["fit", "test"]
    axis: str = ""
    """What the points of a test are new in: shape, format, batch, depth, prompt, model."""
    models: tuple[str, ...]
    """Names of shapes, or of files given when the campaign is started."""
    weights: tuple[str, ...]
    kv_format: str = "f16"
    calls: tuple[Calls, ...]


class Campaign(Spec):
    """A declared campaign."""

    name: str
    title: str = ""
    rounds: Count = 2
    """How often the whole set is gone through, each time in another order."""
    repeats: Count = 3
    """Fewest repeats of a call in one round."""
    point_time: positive("second") = 0.2
    """Shortest time spent on a point. [s]"""
    longest_point: positive("second") = 3.0
    """Time after which a point ends with what it has. [s]"""
    shapes: dict[str, Shape] = {}
    """Shapes beside the shipped ones."""
    drift: tuple[str, str, Calls] | None = None
    """Model, format and call that are measured again and again."""
    groups: tuple[Group, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_once(self):
        taken = [point.name for point in self.points()]
        twice = sorted({name for name in taken if taken.count(name) > 1}) if len(set(taken)) < len(taken) else []
        if twice:
            raise ValueError(f"expected each point once, got {', '.join(twice[:3])} in two groups")
        return self

    def points(self) -> list[Point]:
        """Every point of the declaration."""
        return [
            Point(model, weights, group.kv_format, call, group.role, group.axis)
            for group in self.groups
            for model, weights, calls in product(group.models, group.weights, group.calls)
            for call in calls.each()
        ]

    def drift_point(self) -> Point | None:
        """The point that shows drift."""
        if self.drift is None:
            return None
        model, weights, calls = self.drift
        return Point(model, weights, "f16", next(calls.each()), "drift", "")

    def shape(self, model: str) -> Shape | None:
        """Shape of a synthetic model; ``None`` for the name of a file."""
        return self.shapes.get(model) or SHAPES.get(model)


class Point(NamedTuple):
    """One thing to measure."""

    model: str
    weights: str
    kv_format: str
    call: Call
    role: Literal["fit", "test", "drift", "baseline"]
    axis: str

    @property
    def name(self) -> str:
        """Name that is unique in a campaign, e.g. ``s150/q4_k/decode-b4-d64``."""
        cache = "" if self.kv_format == "f16" else f"/kv-{self.kv_format}"
        return f"{self.model}/{self.weights}{cache}/{self.call.label}"


class Resident(NamedTuple):
    """Points that share a loaded model, in the order in which they are measured."""

    model: str
    weights: str
    kv_format: str
    points: list[Point]


def read_campaign(data: Mapping[str, Any], where: str) -> Campaign:
    """A campaign from plain data, as in its file."""
    campaign = read_spec(Campaign, data, where)
    return campaign


def known_models(campaign: Campaign, files: Mapping[str, str], where: str) -> Campaign:
    """The campaign without groups whose files were not given; a name that is neither shape nor file is refused."""
    optional = {name for group in campaign.groups if group.axis == "model" for name in group.models}
    faults = []
    for group in campaign.groups:
        for name in group.models:
            if campaign.shape(name) is None and name not in files and name not in optional:
                hint = did_you_mean(name, [*SHAPES, *campaign.shapes]) or f"give its file with --model {name}=PATH"
                faults.append(Fault(f"{where}: models", f"no shape and no file {name!r}", hint))
    if faults:
        raise InputError(faults)
    kept = tuple(g for g in campaign.groups if all(campaign.shape(m) or m in files for m in g.models))
    return campaign.model_copy(update={"groups": kept})


def split_hash(campaign: Campaign, settings: Settings, engine: str) -> str:
    """Hash of everything that was decided before the first run, split included."""
    return content_hash({"campaign": campaign.model_dump(mode="json"), "settings": settings.model_dump(mode="json"),
                         "engine": engine})


def in_order(points: list[Point], seed: str) -> list[Resident]:
    """
    Points in random order, those of a loaded model together and of these such that share a context; the same for the
    same seed.

    A first model of each format, among those to be fitted, comes before all others: what a budget leaves no time for is
    then rarely a format as a whole, of which nothing could be said.
    """
    chance = random.Random(seed)
    by_model = sorted(points, key=lambda p: (p.model, p.weights, p.kv_format, p.name))
    residents = [Resident(*key, list(group)) for key, group in groupby(by_model, lambda p: p[:3])]
    chance.shuffle(residents)
    for resident in residents:
        chance.shuffle(resident.points)
        turn: dict[tuple[int, int], int] = {}  # the first of a depth brings the others with it: a cache is filled once
        for point in resident.points:
            turn.setdefault((point.call.depth, point.call.sequences), len(turn))
        resident.points.sort(key=lambda p: turn[p.call.depth, p.call.sequences])
    fitted = [resident for resident in residents if any(point.role == "fit" for point in resident.points)]
    first = list({(resident.weights, resident.kv_format): resident for resident in reversed(fitted)}.values())
    return [*first, *(resident for resident in residents if resident not in first)]

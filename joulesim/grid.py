"""Money and emissions: the grid of a country, and the bill of an answer."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from joulesim import catalogue, units
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.formulas import carbon
from joulesim.prediction import Accuracy, Estimate, Money
from joulesim.scenario import Scenario


class Grid(NamedTuple):
    """Electricity of a country; ``None`` where no figure was found."""

    name: str
    carbon: float | None
    """Carbon intensity, life-cycle average of a year. [gCO2e/J]"""
    carbon_note: str
    price: tuple[float, str] | None
    """Industrial price: amount per joule and its currency."""
    price_note: str


@cache
def _table() -> dict:
    return catalogue.read_yaml(catalogue.folder("scenario") / "grid.yaml", "scenarios/grid.yaml")


@cache
def find(country: str) -> Grid:
    """
    Grid of a country by ISO 3166-1 alpha-3 code, English name or alias, in any case.

    Raises
    ------
    InputError
        When no such country is in the table.
    """
    table = _table()
    wanted = country.strip().lower()
    called = {}
    for code, entry in table["countries"].items():
        called |= {name.lower(): entry for name in (code, entry["name"], *entry.get("aliases", ()))}
    if wanted not in called:
        raise InputError(Fault("prices.country", f"expected a country of the grid table, got {country!r}",
                               did_you_mean(wanted, called) or "give prices.electricity and prices.carbon instead"))
    entry = called[wanted]
    intensity, price = entry.get("carbon"), entry.get("price")
    currency = price["value"].split()[1].partition("/")[0] if price else ""
    return Grid(
        entry["name"],
        units.parse(intensity["value"], "gCO2e/joule") if intensity else None, _note(entry, "carbon"),
        (units.parse(price["value"], f"{currency}/joule"), currency) if price else None, _note(entry, "price"),
    )


def _note(entry: dict, field: str) -> str:
    figure = entry.get(field)
    if not figure:
        return f"no {field} found for {entry['name']}"
    source = _table()["sources"][figure["source"]]
    year = figure.get("year") or source.get("year")
    weak = ", weak source" if figure.get("weak") else ""
    return f"{entry['name']} {figure['value']}{f' ({year})' if year else ''}{weak}: {source['ref']}"


def bill(scenario: Scenario, estimates: dict[str, Estimate], right: Accuracy) -> Money:
    """
    Cost and emissions of an answer, of what was given and of nothing else.

    Electricity pays for the energy at the scenario's boundary, times the PUE where one is given; price and
    embodied carbon of the device are written off over its lifetime, for the time an answer holds it.
    """
    prices = scenario.prices
    country = find(prices.country) if prices.country else None
    energy, held = estimates["energy_per_answer"].value, estimates["device_time_per_answer"].value
    notes = [f"covers the {scenario.boundary} boundary" + (f", PUE {prices.pue:g}" if prices.pue else ", no PUE given")]
    if prices.electricity is None and country and country.price is not None:
        notes.append(f"electricity: {country.price_note}")
    if prices.carbon is None and country and country.carbon is not None:
        notes.append(f"carbon: {country.carbon_note}")
    (cost, operational, embodied), paid = amounts(scenario, energy, held)
    notes += [f"cost includes {part}" for part in paid]

    def per_correct(amount):
        return amount / right.value if amount is not None and right.value else None

    unknown = estimates["energy_per_answer"].reason
    return Money(
        cost, per_correct(cost), next(iter(paid.values()), None), operational, per_correct(operational), embodied,
        per_correct(embodied), tuple(notes),
        unknown or (country.price_note if country and prices.electricity is None else "no price was given"),
        unknown or (country.carbon_note if country and prices.carbon is None else "no grid intensity was given"),
    )


def amounts(scenario: Scenario, energy, held) -> tuple[tuple[Any, Any, Any], dict[str, str]]:
    """
    Cost, operational and embodied emissions of an answer, each ``None`` where something it needs was not given.

    ``energy`` [J/answer] and ``held`` [s/answer] are floats, arrays or ``None``. Beside them: what is in the cost,
    with its currency.
    """
    prices = scenario.prices
    country = find(prices.country) if prices.country else None
    pue = 1.0 if prices.pue is None else prices.pue
    electricity = country.price if prices.electricity is None and country else prices.electricity
    intensity = country.carbon if prices.carbon is None and country else prices.carbon
    parts, paid = [], {}
    if electricity is not None and energy is not None:
        parts.append(carbon.operational(energy, electricity[0], pue))
        paid["electricity"] = electricity[1]
    if prices.hardware is not None and prices.lifetime is not None and held is not None:
        parts.append(carbon.embodied(prices.hardware[0], held, prices.lifetime))
        paid["the device over its lifetime"] = prices.hardware[1]
    if len(set(paid.values())) > 1:
        raise InputError(Fault("prices", f"expected one currency, got {' and '.join(paid.values())}",
                               "give electricity and hardware in the same one"))
    operational = None if intensity is None or energy is None else carbon.operational(energy, intensity, pue)
    known = prices.embodied is not None and prices.lifetime is not None and held is not None
    embodied = carbon.embodied(prices.embodied, held, prices.lifetime) if known else None
    return (sum(parts) if parts else None, operational, embodied), paid

"""The grid file: every figure with a unit, a source and a name to find it by."""

import re

import pytest

from joulesim import catalogue, units
from joulesim.specs.base import Source

GRID = catalogue.read_yaml(catalogue.folder("scenario") / "grid.yaml")
COUNTRIES = GRID["countries"]
FIGURES = {"carbon": "gCO2e/joule", "carbon_check": "gCO2e/joule", "price": None,
           "household_price": "EUR/joule"}


def figures():
    for key, country in COUNTRIES.items():
        for kind in FIGURES:
            if kind in country:
                yield key, kind, country[kind]


def test_has_the_parts_a_loader_reads():
    assert set(GRID) == {"sources", "countries", "pue"}
    assert len(COUNTRIES) >= 70
    assert sum("carbon" in country for country in COUNTRIES.values()) >= 70


def test_keys_are_alpha_3_codes():
    assert [key for key in COUNTRIES if not re.fullmatch("[A-Z]{3}", key)] == ["EU27"]


def test_fields_are_known():
    for key, country in COUNTRIES.items():
        assert set(country) <= {"name", "aliases", *FIGURES}, key
        assert len(set(country) & set(FIGURES)) >= 1, key
    for _, _, figure in figures():
        assert set(figure) <= {"value", "year", "source", "weak", "note"}


def test_names_are_unique_whatever_the_case():
    names = [name.casefold() for key, country in COUNTRIES.items()
             for name in (key, country["name"], *country.get("aliases", ()))]
    assert len(names) == len(set(names))


def names_of(key):
    return {name.casefold() for name in (key, COUNTRIES[key]["name"], *COUNTRIES[key].get("aliases", ()))}


@pytest.mark.parametrize(("name", "key"), [
    ("Germany", "DEU"), ("united states", "USA"), ("UK", "GBR"), ("World", "WOR"), ("fra", "FRA"),
])
def test_a_country_is_found_by_its_name(name, key):
    assert [k for k in COUNTRIES if name.casefold() in names_of(k)] == [key]


def test_figures_read_in_their_unit():
    for key, kind, figure in figures():
        currency = "EUR" if "EUR" in figure["value"] else "USD"
        value = units.parse(figure["value"], FIGURES[kind] or f"{currency}/joule") * 3.6e6
        low, high = (15, 1400) if "carbon" in kind else (0.005, 0.5)
        assert low < value < high, (key, kind)


def test_every_figure_has_a_source():
    sources = {key: Source(**{k: v for k, v in source.items() if k != "year"})
               for key, source in GRID["sources"].items()}
    used = {figure["source"] for _, _, figure in figures()}
    used |= {site["source"] for site in GRID["pue"].values()}
    assert used == set(sources)
    assert all(source.ref for source in sources.values())


def test_carbon_says_its_year():
    for key, kind, figure in figures():
        if kind.startswith("carbon"):
            assert 2022 <= figure["year"] <= 2024, key


def test_weak_sources_are_marked_in_every_row():
    weak = {"research", "climatescope", "globalpetrolprices", "eurostat-fallback"}
    for key, kind, figure in figures():
        assert figure.get("weak", False) == (figure["source"] in weak), (key, kind)


def test_overheads_are_at_least_one():
    for site in GRID["pue"].values():
        assert 1 <= site["value"] < 2 and site["name"]

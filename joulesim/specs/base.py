"""Base of every declared thing: frozen fields, quantities with units, sources, and faults as plain lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from joulesim import units
from joulesim.errors import Fault, InputError, did_you_mean, shown

SourceKind = Literal["datasheet", "paper", "measured", "fitted", "derived", "spec-only", "assumed", "hypothetical"]


class Source(BaseModel):
    """Where a number comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: SourceKind
    ref: str = ""
    """Citation or address of the source."""
    note: str = ""
    """What the number is, when the field name does not say it all."""


class Spec(BaseModel):
    """A declared thing. Unknown fields are refused; fields are read-only."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)

    sources: dict[str, Source] = Field(default_factory=dict)
    """Source of each number by dotted field name; a name covers everything below it."""

    def source(self, field: str) -> Source | None:
        """Source of a dotted field, or of the nearest enclosing name that has one."""
        while field:
            if field in self.sources:
                return self.sources[field]
            field = field.rpartition(".")[0]
        return None


def token_count(value: Any) -> Any:
    """Text of a bare number as that number: a token count needs no unit. All else as it came."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _quantity(unit: str, low: float, strict: bool, high: float):
    def read(value: Any, info: ValidationInfo):
        if value is None:
            return None
        text_only = unit != "token" and bool(info.context and info.context.get("text"))
        try:
            number = units.quantity(token_count(value) if unit == "token" else value, unit, "", text_only)
        except InputError as error:
            fault = error.faults[0]
            raise ValueError(f"{fault.what}; {fault.remedy}".rstrip("; ")) from None
        bound = f"more than {units.show(low, unit)}" if strict else f"at least {units.show(low, unit)}"
        if not math.isfinite(number):
            raise ValueError(f"expected a finite {unit or 'number'}, got {shown(value)}; leave it out if it is unknown")
        if number < low or (strict and number == low):
            raise ValueError(f"expected {bound}, got {shown(value)}; leave it out if it is unknown")
        if number > high:
            raise ValueError(f"expected at most {units.show(high, unit)}, got {shown(value)}")
        return number

    return BeforeValidator(read)


class Measured(NamedTuple):
    """Mark of a field that is a number: its canonical unit."""

    unit: str


def named(kind: str) -> Any:
    """A field that holds a spec and takes its name, a path or a mapping too; the loader resolves them."""

    def resolve(value: Any, info: ValidationInfo):
        if value is None or not info.context or "resolve" not in info.context:
            return value
        return info.context["resolve"](kind, value)

    return BeforeValidator(resolve)


def positive(unit: str = "") -> Any:
    """Field type: a finite quantity above zero, kept as a float in the canonical unit."""
    return Annotated[float, _quantity(unit, 0.0, True, math.inf), Measured(unit)]


def non_negative(unit: str = "") -> Any:
    """Field type: a finite quantity of at least zero, kept as a float in the canonical unit."""
    return Annotated[float, _quantity(unit, 0.0, False, math.inf), Measured(unit)]


def fraction(low: float = 0.0, strict: bool = False) -> Any:
    """Field type: a share between ``low`` and one; ``90 %`` and ``0.9`` are the same."""
    return Annotated[float, _quantity("", low, strict, 1.0), Measured("")]


_MOST = 10**18
"""Whole numbers beyond it count nothing here."""


def _whole(low: int):
    def read(value: Any):
        if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 20:
            value = int(value)
        whole = isinstance(value, int) and abs(value) < _MOST or isinstance(value, float) and value.is_integer()
        if isinstance(value, bool) or not whole:
            raise ValueError(f"expected a whole number, got {shown(value)}")
        if value < low:
            raise ValueError(f"expected a whole number of at least {low}, got {shown(value)}")
        return int(value)

    return BeforeValidator(read)


Count = Annotated[int, _whole(1)]
"""Whole number of at least one."""
Whole = Annotated[int, _whole(0)]
"""Whole number of at least zero."""


_EXPECTED = {
    "model_type": "a mapping of fields", "dict_type": "a mapping", "is_instance_of": "a name, a path or a mapping",
    "string_type": "text", "tuple_type": "a list", "bool_parsing": "true or false", "bool_type": "true or false",
}
"""What is expected, by pydantic's kind of error."""


def faults_of(error: ValidationError, where: str, spec: type[BaseModel]) -> list[Fault]:
    """One fault a line from pydantic's list, in the project's own wording."""
    faults = []
    for item in error.errors(include_url=False):
        path = [str(part) for part in item["loc"] if not str(part).startswith(("function-", "tagged-union", "lax-or"))]
        field = ".".join(path)
        kind, given = item["type"], item.get("input")
        if kind in ("extra_forbidden", "invalid_key"):
            hint = did_you_mean(path[-1], fields_at(spec, path[:-1]))
            faults.append(Fault(f"{where}: {field}", "no such field", hint or "remove it"))
        elif kind == "missing":
            faults.append(Fault(f"{where}: {field}", "expected a value, got nothing", "add it"))
        elif kind == "literal_error":
            expected = item["ctx"]["expected"]
            names = [name.strip("' ") for name in expected.replace(" or ", ", ").split(",")]
            faults.append(Fault(f"{where}: {field}", f"expected {expected}, got {shown(given)}",
                                did_you_mean(given, names) if isinstance(given, str) else ""))
        elif isinstance(item.get("ctx", {}).get("error"), InputError):
            faults.extend(item["ctx"]["error"].faults)
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            message = _EXPECTED.get(kind, message)
            if not message.startswith(("expected", "'")) and kind != "value_error":
                message = f"expected {message}, got {shown(given)}"
            what, _, remedy = message.partition("; ")
            faults.append(Fault(f"{where}: {field}" if field else where, what, remedy))
    return faults


def unit_of(spec: type[BaseModel], path: str) -> str | None:
    """Canonical unit of a dotted field; ``None`` where a field is no plain quantity."""
    *parents, last = path.split(".")
    for name in parents:
        spec = _spec_in(spec.model_fields[name].annotation) if name in spec.model_fields else None
        if spec is None:
            return None
    field = spec.model_fields.get(last)
    marks = [] if field is None else [*field.metadata, *_marks(field.annotation)]
    return next((mark.unit for mark in marks if isinstance(mark, Measured)), None)


def _marks(annotation: Any) -> list[Any]:
    inner = [mark for part in getattr(annotation, "__args__", ()) for mark in _marks(part)]
    return [*getattr(annotation, "__metadata__", ()), *inner]


def fields_at(spec: type[BaseModel], path: list[str]) -> list[str]:
    """Names of the fields that a spec has at a dotted path, for "did you mean"."""
    for name in path:
        if name not in spec.model_fields:  # the key of a mapping
            continue
        found = _spec_in(spec.model_fields[name].annotation)
        if found is None:
            return []
        spec = found
    return list(spec.model_fields)


def _spec_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _spec_in(part)
        if found:
            return found
    return None


def read_spec(spec: type[Spec], data: Any, where: str, text: bool = True):
    """
    Build a spec from plain data, or raise one :class:`InputError` with every fault in it.

    ``text`` says that the data come from a file or command line, where a bare number for a quantity with a
    unit is refused; in Python numbers are in canonical units.
    """
    if not isinstance(data, Mapping):
        raise InputError(Fault(where, f"expected a mapping of fields, got {shown(data)}"))
    try:
        return spec.model_validate(dict(data), context={"text": text, "where": where})
    except ValidationError as error:
        raise InputError(faults_of(error, where, spec)) from None

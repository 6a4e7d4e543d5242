"""
Where declared things are found: shipped profiles by name, files by path, mappings inline.

Data live in ``hardware/``, ``scenarios/`` and ``validation/`` of a checkout and under ``joulesim/_data`` of an
installed package; one loader finds both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from joulesim.errors import Fault, InputError, NotFoundError, did_you_mean, shown
from joulesim.specs import derived
from joulesim.specs.base import Spec, read_spec

_FOLDERS = {
    "hardware": "hardware",
    "scenario": "scenarios",
    "model": "scenarios/models",
    "format": "scenarios/formats",
    "runtime": "scenarios/runtimes",
}
_LARGEST_YAML = 4 << 20
_MOST_ENTRIES = 1_000_000
_SUFFIXES = (".yaml", ".yml", ".json", ".gguf")


@cache
def data_root() -> Path:
    """Folder that holds ``hardware``, ``scenarios`` and ``validation``."""
    package = Path(__file__).parent
    return next(root for root in (package / "_data", package.parent) if (root / "hardware").is_dir())


def folder(kind: str) -> Path:
    """Folder of the shipped things of a kind."""
    return data_root() / _FOLDERS[kind]


def names(kind: str) -> list[str]:
    """Names of the shipped things of a kind: ``hardware``, ``scenario``, ``model``, ``format`` or ``runtime``."""
    return sorted(path.stem for path in folder(kind).glob("*.yaml") if path.stem != "grid")


def read_yaml(path: Path, where: str | None = None) -> Any:
    """
    Content of a YAML file.

    Raises
    ------
    InputError
        When the file is missing, too large, not YAML, or says one key twice.
    """
    import yaml

    where = where or str(path)
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        pass

    def mapping(loader, node):
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if twice:
            line = node.start_mark.line + 1
            raise InputError(Fault(f"{where}: line {line}", f"the key {twice[0]!r} stands twice", "remove one of them"))
        return base.construct_mapping(loader, node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        size = path.stat().st_size
        if size > _LARGEST_YAML:
            raise InputError(Fault(where, f"expected a file of at most {_LARGEST_YAML} bytes, got {size}"))
        data = yaml.load(path.read_text("utf-8"), Loader=Loader)
        if _entries(data, {}) > _MOST_ENTRIES:
            raise InputError(Fault(where, f"expected at most {_MOST_ENTRIES} entries, got more by aliases of aliases"))
        return data
    except InputError:
        raise
    except OSError as error:
        raise NotFoundError(Fault(where, f"cannot be read ({error.strerror or error})")) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}: line {mark.line + 1}" if mark else where
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(Fault(place, f"not YAML ({problem})")) from None


def _entries(data: Any, known: dict[int, float]) -> float:
    """Entries of nested data with every alias counted where it stands; infinite when something holds itself."""
    if not isinstance(data, (dict, list)):
        return 1.0
    if id(data) not in known:
        known[id(data)] = float("inf")  # until it is counted
        known[id(data)] = 1.0 + sum(_entries(d, known) for d in (data.values() if isinstance(data, dict) else data))
    return known[id(data)]


def locate(kind: str, name: str | os.PathLike, base: Path | None = None) -> Path:
    """
    File of a shipped name, or of a path (relative to ``base``, then to the working folder).

    Raises
    ------
    NotFoundError
        With the closest shipped name.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise InputError(Fault(kind, f"expected a name, a path or a mapping, got {shown(name)}"))
    text = os.fspath(name)
    looks_like_path = os.sep in text or text.endswith(_SUFFIXES)
    candidates = [Path(base) / text] if base else []
    candidates.append(Path(text).expanduser())
    if looks_like_path or kind == "model":
        for candidate in candidates:
            if candidate.is_file() or (kind == "model" and looks_like_path and (candidate / "config.json").is_file()):
                return candidate
    known = names(kind)
    if text in known:
        return folder(kind) / f"{text}.yaml"
    if looks_like_path:
        raise NotFoundError(Fault(text, f"expected a {kind} file, found none", "check the path"))
    hint = did_you_mean(text, known) or f"`joulesim {_command(kind)}` lists them"
    raise NotFoundError(Fault("", f"{kind} {text!r}: no such {kind}", hint))


def _command(kind: str) -> str:
    return {"hardware": "hardware", "scenario": "scenarios", "format": "formats"}.get(kind, f"scenarios --{kind}s")


def _read(spec: type[Spec], kind: str, value: Any, base: Path | None, text: bool):
    """Spec from a spec, a name, a path, or a mapping that may start from a ``base``."""
    if isinstance(value, spec):
        return value
    where, data = _declared(kind, value, base)
    if isinstance(data, Mapping) and isinstance(data.get("base"), spec):  # in Python: its numbers are SI already
        start = {field: getattr(data["base"], field) for field in spec.model_fields}
        changes = {k: v for k, v in data.items() if k != "base"}
        return read_spec(spec, _revised(kind, start, changes, where), where, text=False)
    return read_spec(spec, data, where, text)


def _declared(kind: str, value: Any, base: Path | None, seen: tuple[Path, ...] = ()) -> tuple[str, Any]:
    """Where a thing is declared and its plain data, with the data that it starts from merged in."""
    if isinstance(value, Mapping):
        where, data = kind, dict(value)
        if "base" not in data:
            data.setdefault("name", f"inline {kind}")
    else:
        path = locate(kind, value, base)
        where = f"{_FOLDERS[kind]}/{path.name}" if path.parent == folder(kind) else str(path)
        if path.resolve() in seen:
            raise InputError(Fault(f"{where}: base", "expected another file, got one that starts from itself"))
        data, base, seen = read_yaml(path, where), path.parent, (*seen, path.resolve())
        if not isinstance(data, Mapping):
            return where, data
        data = {"name": path.stem, **data}
    parent = data.get("base")
    if parent is None or isinstance(parent, Spec):
        return where, data
    del data["base"]
    start = _declared(kind, parent, base, seen)[1]
    return where, _revised(kind, start, data, where) if isinstance(start, Mapping) else start


def _revised(kind: str, start: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Plain data of a thing that differs from another one in some fields."""
    return merge(start, derived.resolve(start, changes, where) if kind == "hardware" else changes)


def merge(start: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """
    Plain data with some entries replaced: mappings are merged, all else is taken over.

    A reason why something is unknown goes when a value is given.
    """
    merged = dict(start)
    for field, value in changes.items():
        before = merged.get(field)
        if isinstance(before, Spec) and isinstance(value, Mapping):
            before = {inner: getattr(before, inner) for inner in type(before).model_fields}
        merged[field] = merge(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    if isinstance(merged.get("unknown"), Mapping) and "unknown" not in changes:
        merged["unknown"] = {f: why for f, why in merged["unknown"].items() if not _gives(changes, f)}
    return merged


def _gives(changes: Any, field: str) -> bool:
    """Whether a dotted field is among the changes."""
    for part in field.split("."):
        if not isinstance(changes, Mapping) or part not in changes:
            return False
        changes = changes[part]
    return changes is not None


def load_hardware(value, base: Path | None = None, text: bool = True):
    """Hardware profile by shipped name, path, or mapping (with ``base:`` to start from another profile)."""
    from joulesim.specs.hardware import HardwareSpec

    found = _read(HardwareSpec, "hardware", value, base, text)
    if found.same_die_as is not None:
        _check_die(found, f"hardware {found.name!r}: same_die_as")
    return found


def _check_die(profile, where: str) -> None:
    """Raise unless the device that a profile names has the same die and says what an operation costs."""
    known, name = names("hardware"), profile.same_die_as
    if name not in known:
        raise InputError(Fault(where, f"expected a shipped device, got {name!r}", did_you_mean(name.lower(), known)))
    other = shipped_hardware(name)
    for field in ("kind", "family", "process_node"):
        mine, its = getattr(profile, field), getattr(other, field)
        if mine and its and mine != its:
            raise InputError(Fault(where, f"expected a device of {field} {mine}, got {name} of {its}",
                                   "name its own sister, or take same_die_as out"))
    if other.power_limit is None or other.matrix_rate is None or other.same_die_as is not None:
        raise InputError(Fault(where, f"expected a device with a limit and a matrix rate of its own, got {name}"))


@cache
def shipped_hardware(name: str):
    """Shipped profile that another one names in ``same_die_as``."""
    return load_hardware(name)


def load_runtime(value, base: Path | None = None, text: bool = True):
    """Runtime by shipped name, path or mapping."""
    from joulesim.specs.runtime import RuntimeSpec

    return _read(RuntimeSpec, "runtime", value, base, text)


def load_format(value, base: Path | None = None, text: bool = True):
    """Weight or cache format by shipped name or alias (any case), path or mapping."""
    from joulesim.specs.format import FormatSpec

    if isinstance(value, str):
        called = value.lower()
        value = FORMATS.get(called) or FORMATS.get(_aliases().get(called, called)) or value
    return _read(FormatSpec, "format", value, base, text)


@cache
def _aliases() -> dict[str, str]:
    """Shipped format name of each alias, in lower case."""
    found = {}
    for name in names("format"):
        data = read_yaml(folder("format") / f"{name}.yaml")
        found.update({str(alias).lower(): name for alias in data.get("aliases", ())})
    return found


class _Formats(Mapping):
    """Shipped formats by name, each read when first asked for."""

    def __getitem__(self, name: str):
        return _shipped_format(name)

    def __iter__(self):
        return iter(names("format"))

    def __len__(self):
        return len(names("format"))


@cache
def _shipped_format(name: str):
    from joulesim.specs.format import FormatSpec

    if name not in names("format"):
        raise KeyError(name)
    return _read(FormatSpec, "format", name, None, text=True)


FORMATS: Mapping = _Formats()
"""Shipped weight and cache formats by name."""


def load_model(value, base: Path | None = None, text: bool = True):
    """Model by shipped name, a ``config.json`` (or its folder), a ``.gguf``, or a mapping with a ``config``."""
    from joulesim.models import from_config, read_model
    from joulesim.specs.model import ModelSpec

    if isinstance(value, ModelSpec):
        return value
    if isinstance(value, Mapping):
        return _model_from(dict(value), "model", from_config)
    path = locate("model", value, base)
    if path.suffix not in (".yaml", ".yml"):
        return read_model(path)
    where = f"{_FOLDERS['model']}/{path.name}" if path.parent == folder("model") else str(path)
    data = read_yaml(path, where)
    if not isinstance(data, Mapping):
        raise InputError(Fault(where, f"expected a mapping of fields, got {type(data).__name__}"))
    return _model_from({"name": path.stem, **data}, where, from_config)


class ModelFile(Spec):
    """A model in YAML: the config that its publisher ships, under a name."""

    name: str = "inline model"
    title: str = ""
    config: dict[str, Any]


def _model_from(data: dict, where: str, from_config):
    if "base" in data:
        raise InputError([Fault(f"{where}.{key}", "expected no change inside a model", "give a config.json or another model")
                          for key in data if key != "base"])
    declared = read_spec(ModelFile, data, where)
    ref = declared.sources["config"].ref if "config" in declared.sources else ""
    return from_config(declared.config, where)._replace(name=declared.name, source=ref)


_LOADERS = {"hardware": load_hardware, "runtime": load_runtime, "format": load_format, "model": load_model}


def _resolver(base: Path | None, text: bool):
    return lambda kind, value: _LOADERS[kind](value, base=base, text=text)

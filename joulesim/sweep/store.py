"""Results on disk: Zarr as they are computed, and netCDF made from it. A sweep cut short goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import joulesim
from joulesim import units
from joulesim.errors import Fault, InputError
from joulesim.sweep.plan import Plan, Region, cut, dtype_of

PROGRAM = 400e6
"""Memory of the interpreter, its libraries and the tiles in work, before any chunk. [B]"""
_LARGEST_CHUNK = 1 << 20


def check_disk(plan: Plan, path: Path) -> None:
    """Refuse a sweep that does not fit the disk, with the arithmetic."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free, copies = shutil.disk_usage(folder).free, 2 if path.suffix == ".nc" else 1
    needed = plan.size * plan.bytes_per_point * copies
    if needed > free:
        raise InputError(Fault(str(path), f"expected room for {arithmetic(plan, copies)}, {folder} has "
                               f"{units.show(free, 'byte')} free (compression is not counted on)",
                               "sweep fewer points or keep fewer quantities (variables=, --variables)"))


def arithmetic(plan: Plan, copies: int = 1) -> str:
    """Size of a sweep's results as a product."""
    dimensions = " x ".join(f"{axis.size:,}" for axis in plan.axes)
    points = f"{dimensions} = {plan.size:,} points" if len(plan.axes) > 1 else f"{plan.size:,} points"
    twice = " x 2 (Zarr while it runs, netCDF at the end)" if copies == 2 else ""
    size = units.show(plan.size * plan.bytes_per_point * copies, "byte")
    return f"{points} x {plan.bytes_per_point} B ({len(plan.variables)} variables){twice} = {size}"


def chunk_points(plan: Plan, memory: float) -> int:
    """
    Points of a chunk such that a process that computes and writes one stays within ``memory``. [1]

    A chunk is held once as results and at most half as much again while it is compressed.
    """
    room = memory - PROGRAM
    if room < 1000 * plan.bytes_per_point:
        least, itself, got = (units.show(size, "byte") for size in (
            PROGRAM + 1000 * plan.bytes_per_point, PROGRAM, memory))
        raise InputError(Fault("memory", f"expected at least {least} (the program itself takes {itself}), got {got}"))
    return min(_LARGEST_CHUNK, int(room / (1.5 * plan.bytes_per_point)))


class Store:
    """A Zarr group that holds a sweep, and the journal of the chunks that it holds already."""

    def __init__(self, plan: Plan, path: Path, memory: float):
        self.plan, self.path = plan, path
        self.chunk_points = chunk_points(plan, memory)
        self.done: set[int] = set()
        self.journal = path.with_name(f".{path.name}.journal")

    def open(self, header) -> None:
        """
        Make the store, or take up the one that is there.

        ``header`` writes coordinates and attributes: a function of the path.
        """
        name = _fingerprint(self.plan)
        if self.journal.is_file() and self.path.exists():
            first, *rest = self.journal.read_text().splitlines()
            found = json.loads(first)
            if found["sweep"] != name:
                raise InputError(Fault(str(self.path), "expected the results of this sweep, found those of another one",
                                       "remove it or write to another path"))
            self.chunk_points = found["chunk_points"]
            self.done = {int(line) for line in rest if line.isdigit()}
            return
        if self.path.exists() and any(self.path.iterdir()):
            raise InputError(Fault(str(self.path), "expected nothing or an unfinished sweep, found something else",
                                   "remove it or write to another path"))
        import zarr

        header(self.path)
        group = zarr.open_group(self.path, mode="a")
        shape = tuple(s.stop - s.start for s in self.chunks[0])
        codec = zarr.codecs.BloscCodec(cname="lz4", clevel=1, shuffle="shuffle")
        for variable in self.plan.variables:
            kind = dtype_of(variable)
            group.create_array(variable, shape=self.plan.shape, chunks=shape, dtype=kind, compressors=codec,
                               fill_value=np.nan if kind.kind == "f" else -1, attributes=self.attributes(variable),
                               dimension_names=[axis.name for axis in self.plan.axes])
        self.journal.unlink(missing_ok=True)
        _append(self.journal, json.dumps({"sweep": name, "chunk_points": self.chunk_points}))

    @cached_property
    def chunks(self) -> list[Region]:
        """Where each chunk lies."""
        return list(cut(self.plan.whole, self.chunk_points))

    def attributes(self, variable: str) -> dict[str, Any]:
        """Attributes of a variable."""
        from joulesim.sweep import variable_attributes

        return variable_attributes(self.plan, variable)

    @property
    def left(self) -> list[int]:
        """Chunks that are not there yet."""
        return [i for i in range(len(self.chunks)) if i not in self.done]

    def finish(self, index: int) -> None:
        """Note that a chunk is there, so that it is not computed again."""
        self.done.add(index)
        _append(self.journal, str(index))

    def points(self, index: int) -> int:
        """Points of a chunk."""
        return _size(self.chunks[index])


def write_chunk(part: Plan, region: Region, path: str) -> None:
    """Compute a chunk and write it into the store."""
    import zarr

    arrays = part.allocate()
    part.fill(arrays)
    group = zarr.open_group(path, mode="r+")
    for name, array in arrays.items():
        group[name][region] = array


def to_netcdf(store: Store, path: Path) -> None:
    """netCDF file of a finished store, copied chunk by chunk; it appears under its name when it is complete."""
    import h5netcdf
    import zarr

    group = zarr.open_group(store.path, mode="r")
    unfinished = path.with_name(path.name + ".writing")
    dimensions = [axis.name for axis in store.plan.axes]
    shape = tuple(s.stop - s.start for s in store.chunks[0])
    with h5netcdf.File(unfinished, "a") as file:
        for name in store.plan.variables:
            kind = dtype_of(name)
            variable = file.create_variable(name, dimensions, kind, chunks=shape, compression="lzf", shuffle=True,
                                            fillvalue=kind.type(np.nan if kind.kind == "f" else -1))
            for attribute, value in store.attributes(name).items():
                variable.attrs[attribute] = value
            for region in store.chunks:
                variable[region] = group[name][region]
    os.replace(unfinished, path)
    shutil.rmtree(store.path)
    store.journal.unlink()


def _size(region: Region) -> int:
    return int(np.prod([s.stop - s.start for s in region]))


def _append(journal: Path, line: str) -> None:
    with journal.open("a") as handle:
        handle.write(line + "\n")
        handle.flush()
        os.fsync(handle.fileno())


def _fingerprint(plan: Plan) -> str:
    """Text that tells a sweep from another."""
    digest = hashlib.sha256()
    rest = [plan.scenario.document, joulesim.__version__, plan.level, plan.variables]
    digest.update(json.dumps(rest, default=str).encode())
    for axis in plan.axes:
        digest.update(f"{axis.name} {axis.size}".encode())
        for name, values in (axis.numeric | axis.discrete).items():
            data = values.tobytes() if isinstance(values, np.ndarray) else "\n".join(map(repr, values)).encode()
            digest.update(name.encode() + data)
    for name, scores in plan.scores.items():
        digest.update(name.encode() + scores.tobytes())
    return digest.hexdigest()

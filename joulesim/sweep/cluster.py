"""Pieces of a sweep on the workers of a Dask cluster; the only place where dask.distributed is imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.sweep.plan import GRID_TILE, Plan, Region, cut, dtype_of
from joulesim.sweep.store import Store, write_chunk

_RETRIES = 5
_PIECE = 1 << 18
"""Points of a task."""


@contextmanager
def connected(client):
    """The client given, or one of the scheduler at an address, closed at the end; ``None`` for none."""
    if not isinstance(client, str):
        yield client
        return
    try:
        import distributed
    except ImportError:
        raise InputError(Fault("--scheduler", "dask.distributed is not installed",
                               "pip install 'joulesim[cluster]'")) from None
    try:
        made = distributed.Client(client, timeout="10s")
    except (OSError, ValueError) as error:
        what = f"expected a Dask scheduler at {client!r}, found none ({error})"
        raise InputError(Fault("--scheduler", what)) from None
    with made:
        yield made


def fill(plan: Plan, client, advance: Callable[[int], None]) -> dict[str, np.ndarray]:
    """
    Every variable of a sweep, in memory.

    Workers on this machine write into memory that is shared with it; others send their pieces.
    """
    regions = list(cut(plan.whole, _PIECE))
    with _shared_folder(plan) as folder:
        shared = _mapped(plan, Path(folder))
        if not _all_see(client, folder):
            out = plan.allocate()
            for region, arrays in _run(client, _arrays, [(r, (plan.part(r),)) for r in regions]):
                for name, array in arrays.items():
                    out[name][region] = array
                advance(_size(region))
            return out
        for region, _ in _run(client, _into, [(r, (plan.part(r), r, plan.shape, folder)) for r in regions]):
            advance(_size(region))
        return shared


def write(store: Store, client, advance: Callable[[int], None]) -> None:
    """Every chunk that a store lacks, written by the workers, who must see its folder."""
    path = str(store.path.absolute())
    if not _all_see(client, path):
        raise InputError(Fault(path, "expected a folder that every worker sees, some do not",
                               "write to a shared file system"))
    tasks = [(i, (store.plan.part(store.chunks[i]), store.chunks[i], path)) for i in store.left]
    for index, _ in _run(client, write_chunk, tasks):
        store.finish(index)
        advance(store.points(index))


def _run(client, function, tasks):
    """Key and result of each task as it ends. A task whose worker is lost runs again on another one."""
    from distributed import as_completed

    waiting = iter(tasks)
    keys = {}

    def submit(task):
        key, arguments = task
        future = client.submit(function, *arguments, retries=_RETRIES, pure=False)
        keys[future] = key
        return future

    ahead = 2 * max(1, sum(client.nthreads().values())) + 2
    running = as_completed([submit(task) for _, task in zip(range(ahead), waiting, strict=False)])
    for future in running:
        yield keys.pop(future), future.result()
        for task in waiting:
            running.add(submit(task))
            break


def _arrays(part: Plan) -> dict[str, np.ndarray]:
    out = part.allocate()
    part.fill(out)
    return out


def _into(part: Plan, region: Region, shape: tuple[int, ...], folder: str) -> None:
    """Compute a piece into files of whole arrays. Writing costs less than touching each page of a map."""
    for tile in cut(part.whole, GRID_TILE):
        small = part.part(tile)
        first = [at.start + inside.start for at, inside in zip(region, tile, strict=True)]
        for name, array in _arrays(small).items():
            with open(Path(folder) / name, "r+b") as file:  # a tile lies in one stretch: see cut
                file.seek(int(np.ravel_multi_index(first, shape)) * array.itemsize)
                file.write(array)


def _mapped(plan: Plan, folder: Path) -> dict[str, np.ndarray]:
    """New files of that size, mapped into memory."""
    return {name: np.memmap(folder / name, dtype_of(name), "w+", shape=plan.shape) for name in plan.variables}


def _shared_folder(plan: Plan) -> tempfile.TemporaryDirectory:
    """A folder in memory where there is one with room; files stay readable through their maps after it is removed."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > plan.size * plan.bytes_per_point
    return tempfile.TemporaryDirectory(prefix="joulesim-", dir=memory if roomy else None)


def _all_see(client, folder: str) -> bool:
    return all(client.run(os.path.isdir, folder).values())


def _size(region: Region) -> int:
    return int(np.prod([s.stop - s.start for s in region]))

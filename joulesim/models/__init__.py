"""Models read from a Hugging Face ``config.json`` or a ``.gguf`` file, as shapes; no weight is ever loaded."""

from __future__ import annotations

import os
from pathlib import Path

from joulesim.errors import Fault, NotFoundError
from joulesim.models.config import from_config
from joulesim.models.json_file import read_json
from joulesim.specs.model import ModelSpec

__all__ = ["from_config", "read_model"]

GGUF_MAGIC = b"GGUF"


def read_model(path: str | os.PathLike) -> ModelSpec:
    """
    Model that a file describes: a ``.gguf``, a ``config.json``, or a folder with a ``config.json``.

    What the file holds decides, not its name. ``hf_quant_config.json`` in the same folder (or
    ``X_hf_quant_config.json`` beside ``X_config.json``) is read with it.

    Raises
    ------
    InputError
        When the file is missing, is neither, or describes a model that is not modelled.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    try:
        with path.open("rb") as file:
            start = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise NotFoundError(
            Fault(
                str(path),
                f"cannot be read ({error.strerror or error})",
                "give a config.json, a .gguf, or a folder with a config.json",
            )
        ) from None
    if start == GGUF_MAGIC:
        from joulesim.models.gguf_file import read_gguf

        return read_gguf(path)
    beside = path.with_name(path.name.removesuffix("config.json") + "hf_quant_config.json")
    quant = read_json(beside) if path.name.endswith("config.json") and beside.is_file() else None
    return from_config(read_json(path), str(path), quant)

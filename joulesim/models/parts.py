"""Tensors and mixers of a model while its layers are being laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from joulesim.models.families import Family
from joulesim.models.fields import Fields
from joulesim.specs.model import Mixer, Role, Tensor


class Parts:
    """
    What the readers of attention, recurrence and FFN add to.

    Parameters
    ----------
    fields : Fields
        The config being read.
    family : Family
        What its family's code adds.
    hidden : int
        Width of the residual stream.
    """

    def __init__(self, fields: Fields, family: Family, hidden: int):
        self.fields, self.family, self.hidden = fields, family, hidden
        self.tensors: list[Tensor] = []
        self._mixers: dict[Mixer, int] = {}

    def matrix(
        self, name: str, role: Role, rows: int, columns: int, layers: Iterable[int] = (), copies: int = 1
    ) -> None:
        """Add one matrix for each of the layers (or a single one outside them)."""
        if rows and columns and copies:
            self.tensors.append(Tensor(name, role, rows, columns, tuple(layers), copies))

    def vector(self, name: str, size: int, layers: Iterable[int] = ()) -> None:
        """Add a norm, bias or other small tensor."""
        self.matrix(name, "vector", 1, size, layers)

    def linear(
        self,
        name: str,
        role: Role,
        rows: int,
        columns: int,
        layers: Iterable[int],
        bias: bool = False,
        copies: int = 1,
    ) -> None:
        """Add a projection with or without a bias; an expert's bias is read with the expert only."""
        self.matrix(name, role, rows, columns, layers, copies)
        if bias:
            self.matrix(f"{name}.bias", role if role == "routed_expert" else "vector", 1, rows, layers, copies)

    def norm(self, name: str, size: int, layers: Iterable[int] = ()) -> None:
        """Add a norm as its family has it."""
        self.vector(name, size * self.family.norm_vectors, layers)

    def mixer(self, mixer: Mixer) -> None:
        """Add layers of a mixer; equal ones are counted together."""
        key = mixer._replace(layers=0)
        self._mixers[key] = self._mixers.get(key, 0) + mixer.layers

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Mixers in the order in which they were first added."""
        return tuple(mixer._replace(layers=layers) for mixer, layers in self._mixers.items())

    def inside(self, module: str) -> Callable[[str], str]:
        """Tensor names within a module of a layer."""
        return partial(self.layer, module)

    def layer(self, module: str, name: str = "") -> str:
        """Tensor name of a module of a layer, with ``{}`` for the layer's number."""
        return ".".join(part for part in (f"{self.family.prefix}layers.{{}}", module, name) if part)

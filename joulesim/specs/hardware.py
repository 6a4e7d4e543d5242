"""A device: what its datasheet and its measurements say."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from joulesim.errors import did_you_mean
from joulesim.specs.base import Spec, fraction, non_negative, positive
from joulesim.specs.derived import CarryOver

Boundary = Literal["chip", "board", "host", "wall"]
"""What a joule includes, from the die outwards; see ``docs/nomenclature.md``."""


class ComputeRates(Spec):
    """Dense peak arithmetic rate per number type, without structured sparsity. [FLOP/s]"""

    fp32: positive("FLOP/second") | None = None
    tf32: positive("FLOP/second") | None = None
    fp16: positive("FLOP/second") | None = None
    """Tensor rate for fp16 and bf16 operands with fp32 accumulation."""
    int8: positive("FLOP/second") | None = None
    fp8: positive("FLOP/second") | None = None
    fp4: positive("FLOP/second") | None = None


class IdlePower(Spec):
    """Power when nothing is computed, by state, at the profile's own boundary. [W]"""

    empty: non_negative("watt") | None = None
    """No process on the device."""
    resident: non_negative("watt") | None = None
    """Context created and weights loaded, no request running."""


class PowerMode(Spec):
    """A power setting the device can be run in (mains, battery, a cap)."""

    power_limit: positive("watt") | None = None
    """Highest sustained average power in this mode. [W]"""
    clock: fraction(strict=True) = 1.0
    """Chip clock as a share of the clock of the default mode."""
    note: str = ""


class System(Spec):
    """What surrounds the device in the machine it is sold in."""

    host_power: non_negative("watt") | None = None
    """Host CPU, memory, fans and drives per device while serving. [W]"""
    psu_efficiency: fraction(strict=True) | None = None
    """Power out of the supply over power in at the load expected while serving."""


class HardwareSpec(Spec):
    """One device, or one variant of it. ``None`` means unknown, with the reason in :attr:`unknown`."""

    name: str
    title: str = ""
    vendor: str = ""
    kind: Literal["gpu", "soc", "cpu", "accelerator"] = "gpu"
    family: str = ""
    """Architecture family, e.g. ``hopper``."""
    launch_year: int | None = None
    process_node: str = ""
    same_die_as: str | None = None
    """Shipped device with the same die and the limit it was made for: energies of operations start from its datasheet."""

    memory_kind: str = ""
    """Memory technology, e.g. ``HBM3`` or ``GDDR7``; decides the starting energy per byte."""
    memory_capacity: positive("byte") | None = None
    """Device memory that the driver reports. [B]"""
    memory_bandwidth: positive("byte/second") | None = None
    """Datasheet peak. [B/s]"""
    measured_memory_bandwidth: positive("byte/second") | None = None
    """Sustained read rate that somebody measured. [B/s]"""
    cache_capacity: positive("byte") | None = None
    """Last-level cache. [B]"""

    compute_rate: ComputeRates = Field(default_factory=ComputeRates)
    measured_compute_rate: ComputeRates = Field(default_factory=ComputeRates)
    """Best sustained dense matrix multiplication that somebody measured. [FLOP/s]"""

    power_limit: positive("watt") | None = None
    """Rated board (GPU) or package (CPU, SoC) power. [W]"""
    power_limit_range: tuple[positive("watt"), positive("watt")] | None = None
    idle_power: IdlePower = Field(default_factory=IdlePower)
    base_clock: positive("hertz") | None = None
    boost_clock: positive("hertz") | None = None

    link_bandwidth: positive("byte/second") | None = None
    """Device-to-device link, each direction. [B/s]"""

    power_modes: dict[str, PowerMode] = Field(default_factory=dict)
    boundary: Boundary = "board"
    """Boundary at which this profile's powers are stated."""
    chip_share_of_memory_energy: fraction() | None = None
    """Share of the energy per byte that a chip counter sees; the rest is in the memory devices."""
    system: System = Field(default_factory=System)

    derived_from: HardwareSpec | None = None
    """Device that a hypothetical one differs from; its constants carry over as :attr:`carry_over` says."""
    carry_over: CarryOver | None = None
    """What happens to powers and energies on the way there; what is not said is kept."""

    unknown: dict[str, str] = Field(default_factory=dict)
    """Why a field is ``None``, by field name."""

    @model_validator(mode="after")
    def _reasons_are_for_unknown_fields(self):
        for field in self.unknown:
            value = self
            for part in field.split("."):
                fields = type(value).model_fields if isinstance(value, Spec) else {}
                if isinstance(value, dict):
                    value = value.get(part)
                    continue
                if part not in fields:
                    raise ValueError(f"unknown.{field}: no such field. {did_you_mean(part, fields)}".rstrip())
                value = getattr(value, part)
            if value is not None:
                raise ValueError(f"unknown.{field}: expected no reason, the field has a value; remove one of them")
        return self

    @property
    def matrix_rate(self):
        """Dense 16-bit rate: the peak, else the fp32 peak, else what somebody measured. [FLOP/s]"""
        rates = (self.compute_rate.fp16, self.compute_rate.fp32, self.measured_compute_rate.fp16)
        return next((rate for rate in rates if rate is not None), None)

    @property
    def streaming_rate(self):
        """Memory rate: the datasheet's, else what somebody measured. [B/s]"""
        return self.measured_memory_bandwidth if self.memory_bandwidth is None else self.memory_bandwidth

    def why_unknown(self, field: str) -> str:
        """Reason why a dotted field is unknown."""
        return self.unknown.get(field, "not stated in the profile")

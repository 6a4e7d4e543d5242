"""A serving scenario: a model on a device under a runtime, doing a task."""

from __future__ import annotations

from typing import Annotated

from pydantic import InstanceOf, model_validator

from joulesim.errors import did_you_mean
from joulesim.specs.base import Spec, named, positive
from joulesim.specs.format import FormatSpec
from joulesim.specs.hardware import Boundary, HardwareSpec
from joulesim.specs.model import ModelSpec
from joulesim.specs.runtime import RuntimeSpec
from joulesim.specs.speculation import SpeculationSpec
from joulesim.specs.workload import PricesSpec, ServingSpec, TaskSpec, WorkloadSpec


class ScenarioSpec(Spec):
    """One deployment with everything in it resolved: names have become specs."""

    name: str = "scenario"
    title: str = ""
    hardware: Annotated[InstanceOf[HardwareSpec], named("hardware")]
    power_mode: str | None = None
    """One of the profile's power modes; ``None``: as rated."""
    power_cap: positive("watt") | None = None
    """Power limit set by the operator, at the profile's boundary. [W]"""
    runtime: Annotated[InstanceOf[RuntimeSpec], named("runtime")]
    model: Annotated[InstanceOf[ModelSpec], named("model")]
    weights: Annotated[InstanceOf[FormatSpec], named("format")] | None = None
    """Weight format; ``None``: as the checkpoint stores them."""
    kv_cache: Annotated[InstanceOf[FormatSpec], named("format")] | None = None
    """Cache format; ``None``: as the checkpoint asks, else f16."""
    workload: WorkloadSpec
    serving: ServingSpec = ServingSpec()
    speculation: SpeculationSpec = SpeculationSpec()
    task: TaskSpec = TaskSpec()
    boundary: Boundary = "board"
    prices: PricesSpec = PricesSpec()

    @model_validator(mode="after")
    def _consistent(self):
        modes = self.hardware.power_modes
        if self.power_mode is not None and self.power_mode not in modes:
            hint = did_you_mean(self.power_mode, modes)
            known = ", ".join(modes) or "none"
            raise ValueError(
                f"power_mode: expected a power mode of {self.hardware.name} ({known}), got {self.power_mode!r}; {hint}"
            )
        return self

"""joulesim predicts the energy per correct answer of an LLM deployment, and measures how wrong it was."""

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

_PUBLIC = {
    "predict": "joulesim.predict",
    "sweep": "joulesim.sweep",
    "optimise": "joulesim.optimise",
    "frontier": "joulesim.sweep.views",
    "best": "joulesim.sweep.views",
    "scale": "joulesim.hypothetical",
    "sobol": "joulesim.design",
    "random_design": "joulesim.design",
    "read_records": "joulesim.measure.records",
    "measure": "joulesim.measure.scenario",
    "fit": "joulesim.validate.local_result",
    "FitResult": "joulesim.validate.local_result",
    "load_scenario": "joulesim.scenario",
    "Scenario": "joulesim.scenario",
    "load_hardware": "joulesim.catalogue",
    "load_model": "joulesim.catalogue",
    "load_format": "joulesim.catalogue",
    "load_runtime": "joulesim.catalogue",
    "Prediction": "joulesim.prediction",
    "InputError": "joulesim.errors",
}

__all__ = ["__version__", *_PUBLIC]


class _Package(ModuleType):
    """A package whose public names win over modules of the same name: ``joulesim.predict`` is the function."""

    def __setattr__(self, name, value):
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'joulesim' has no attribute {name!r}")


def __dir__():
    return __all__

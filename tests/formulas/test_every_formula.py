"""Every public formula is documented in all five sections, tested, and needs numpy alone."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from joulesim import formulas

SECTIONS = ("Parameters", "Returns", "Notes", "References", "Examples")
MODULES = sorted(m.name for m in pkgutil.iter_modules(formulas.__path__))
HERE = Path(__file__).parent


def public(module):
    return {name: f for name, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")}


FORMULAS = [(m, name) for m in MODULES for name in public(importlib.import_module(f"joulesim.formulas.{m}"))]


@pytest.mark.parametrize("module, name", FORMULAS)
def test_all_five_sections(module, name):
    text = inspect.getdoc(getattr(importlib.import_module(f"joulesim.formulas.{module}"), name))
    missing = [s for s in SECTIONS if f"{s}\n{'-' * len(s)}" not in text]
    assert not missing, f"{module}.{name} lacks {missing}"
    assert ">>>" in text.partition("Examples")[2]


@pytest.mark.parametrize("module, name", FORMULAS)
def test_a_test_names_it(module, name):
    file = HERE / f"test_{module}.py"
    assert file.is_file(), f"no tests of joulesim/formulas/{module}.py"
    tree = ast.parse(file.read_text("utf-8"))
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert name in used, f"no test of {module}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_it_imports_numpy_alone(module):
    source = (Path(formulas.__file__).parent / f"{module}.py").read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            assert {a.name for a in node.names} <= {"numpy", "math", "functools"}
        elif isinstance(node, ast.ImportFrom):
            assert node.module.startswith("joulesim.formulas") or node.module == "__future__"

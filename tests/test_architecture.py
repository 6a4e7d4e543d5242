"""Who may import whom, one door a library, and a command that starts without the heavy ones."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "joulesim"
SOURCES = sorted(PACKAGE.rglob("*.py"))

DOORS = {
    "pint": ("units.py",),
    "matplotlib": ("plots.py", "sweep/"),
    "gguf": ("models/gguf_", "measure/synth"),
    "xarray": ("sweep/",),
    "dask": ("sweep/",),
    "distributed": ("sweep/",),
    "zarr": ("sweep/",),
    "scipy": ("validate/", "optimise", "design.py", "sweep/"),
    "pynvml": ("measure/meters/nvml.py",),
    "llama_cpp": ("measure/runtimes/", "measure/doctor"),
    "torch": ("measure/runtimes/transformers",),
    "transformers": ("measure/runtimes/transformers",),
    "pandas": ("sweep/", "measure/importers/"),
}
"""Modules that may import a library, by the start of their path in the package."""

LAYERS = (
    ("errors", "units"),
    ("specs", "formulas"),
    ("models", "catalogue"),
    ("scenario",),
    ("inputs", "constants", "chain", "rounds"),
    ("uncertainty",),
    ("prediction", "grid", "predict", "explain", "compare", "inventory", "drafting", "sensitivity"),
    ("sweep", "plots"),
    ("optimise", "design", "validate", "synth"),
    ("cli", "__main__"),
)
"""Each imports from its own line and those above."""


def imports(path: Path, lazily: bool = True) -> set[str]:
    """Modules that a source imports; without ``lazily`` only those at import time."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in ast.walk(f)}
    checking = {id(n) for i in ast.walk(tree) if isinstance(i, ast.If) and "TYPE_CHECKING" in ast.dump(i.test) for n in ast.walk(i)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in checking or not lazily and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(module: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if module in names), None)


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_one_door_a_library(path):
    for module in imports(path):
        doors = DOORS.get(module.partition(".")[0])
        assert doors is None or place(path).startswith(doors), f"{place(path)} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_each_imports_from_its_left(path):
    own = place(path).partition("/")[0].removesuffix(".py")
    for module in imports(path):
        root, _, rest = module.partition(".")
        if root != "joulesim" or not rest:
            continue
        other = rest.partition(".")[0]
        if layer(own) is not None and layer(other) is not None:
            assert layer(other) <= layer(own), f"{place(path)} imports {module}"


@pytest.mark.parametrize("path", [p for p in SOURCES if place(p).startswith("measure/")], ids=place)
def test_a_measurement_cannot_see_a_prediction(path):
    forbidden = {"predict", "prediction", "chain", "inputs", "constants", "explain", "compare", "uncertainty", "validate", "sweep",
                 "formulas", "grid"}
    seen = {m.split(".")[1] for m in imports(path) if m.startswith("joulesim.")}
    assert not seen & forbidden


@pytest.mark.parametrize("path", [p for p in SOURCES if place(p).startswith("formulas/")], ids=place)
def test_formulas_need_numpy_alone(path):
    allowed = ("numpy", "math", "functools", "__future__", "joulesim.formulas")
    assert all(m.startswith(allowed) for m in imports(path))


@pytest.mark.parametrize("path", [p for p in SOURCES if place(p).startswith("specs/")], ids=place)
def test_specs_do_no_arithmetic(path):
    assert not any(m.startswith(("numpy", "joulesim.formulas", "joulesim.chain")) for m in imports(path))


def test_no_drawer_for_odds_and_ends():
    names = {p.name for p in SOURCES}
    assert not names & {"utils.py", "common.py", "helpers.py", "misc.py"}


HEAVY = ("pint", "matplotlib", "scipy", "xarray", "pandas", "dask", "distributed", "gguf", "llama_cpp", "pynvml", "zarr", "torch", "transformers")


@pytest.mark.parametrize("code", [
    "import joulesim",
    "import joulesim.cli",
    "from joulesim.cli import main; main(['predict', 'qwen2.5-7b-q4_0-laptop-b8'])",
    "from joulesim.cli import main; main(['hardware'])",
], ids=["package", "cli", "predict", "list"])
def test_a_cold_start_loads_nothing_heavy(code):
    check = f"{code}\nimport sys\nprint('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, cwd=PACKAGE.parent)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().splitlines()[-1] == "HEAVY []"


def test_importing_the_package_loads_neither_numpy_nor_pydantic():
    run = subprocess.run([sys.executable, "-c", "import joulesim, sys; print(sorted({'numpy', 'pydantic', 'yaml'} & set(sys.modules)))"],
                         capture_output=True, text=True, timeout=60, cwd=PACKAGE.parent)
    assert run.stdout.strip() == "[]", run.stderr


def test_public_names_are_functions_not_modules():
    import joulesim

    for name in joulesim.__all__:
        assert getattr(joulesim, name) is not None
    assert callable(joulesim.predict)
    import joulesim.predict as imported  # noqa: F401

    assert callable(joulesim.predict)

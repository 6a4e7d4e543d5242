"""The page of formulas lists each of them."""

import ast

import pytest

from tests.docs.pages import ROOT, page

PAGE = page("docs/formulas.md")
FUNCTIONS = [
    (path.stem, node.name)
    for path in sorted((ROOT / "joulesim" / "formulas").glob("*.py"))
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_it_is_listed_with_a_link(module, name):
    assert f"[`{module}.{name}`](../joulesim/formulas/{module}.py)" in PAGE, "run python docs/list_formulas.py"


def test_nothing_else_is_listed():
    listed = [line for line in PAGE.splitlines() if line.startswith("### ")]
    assert len(listed) == len(FUNCTIONS), "run python docs/list_formulas.py"

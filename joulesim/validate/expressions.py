"""Arithmetic of a claim: names, numbers and a few functions, read from text without running Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from joulesim.errors import Fault, InputError

_OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable] = {
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "log": np.log,
    "floor_power_of_two": lambda n: 2.0 ** np.floor(np.log2(n)),
    "slope": lambda y, x: (np.log(y[-1]) - np.log(y[-2])) / (np.log(x[-1]) - np.log(x[-2])),
}
"""Functions of arrays; ``slope`` is the last log-log slope."""


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """
    Value of an expression.

    Parameters
    ----------
    text : str
        For example ``1 - two.decode_energy / one.decode_energy``.
    names : mapping
        Objects whose attributes the expression may read.

    Raises
    ------
    InputError
        When it uses anything beyond names, attributes, numbers, ``+ - * / **`` and the functions above.

    Examples
    --------
    >>> float(evaluate("max(a) / 2", {"a": np.array([1.0, 4.0])}))
    2.0
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise InputError(Fault(text, f"not an expression ({error.msg})")) from None
    return _value(tree.body, names, text)


def _value(node: ast.AST, names: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not node.attr.startswith("_"):
        return getattr(_value(node.value, names, text), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
        return _value(node.value, names, text)[_value(node.slice, names, text)]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, names, text), _value(node.right, names, text))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.operand, names, text))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        return _FUNCTIONS[node.func.id](*(_value(argument, names, text) for argument in node.args))
    raise InputError(
        Fault(text, f"expected names, numbers, + - * / ** and {', '.join(_FUNCTIONS)}, got {ast.unparse(node)!r}")
    )

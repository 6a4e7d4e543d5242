"""Write docs/formulas.md from the docstrings of joulesim/formulas: `python docs/list_formulas.py`."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
FORMULAS = HERE.parent / "joulesim" / "formulas"
ORDER = ("lengths", "batching", "calls", "weights", "attention", "kv_cache", "memory", "parallelism", "roofline",
         "speculation", "power", "answer", "carbon")
HEAD = """# Formulas

Every formula is a plain numpy function in `joulesim/formulas/`: floats or arrays in SI units, nothing else. Its
docstring has the units of its arguments, where it stops being valid, and an example that runs as a test. This page is
written from those docstrings by `python docs/list_formulas.py`; `joulesim explain SCENARIO` shows the numbers, and
[flow.md](flow.md) the order in which they are used.
"""


def modules() -> list[str]:
    """Modules in flow order, those that the order does not know last."""
    found = sorted(path.stem for path in FORMULAS.glob("*.py") if path.stem != "__init__")
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def functions(module: str) -> list[ast.FunctionDef]:
    """Public functions of a module."""
    tree = ast.parse((FORMULAS / f"{module}.py").read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def sections(docstring: str) -> dict[str, str]:
    """Text of a numpydoc docstring by section; the summary under an empty name."""
    parts = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.M)
    return {"": parts[0].strip()} | dict(zip(parts[1::2], (p.strip() for p in parts[2::2]), strict=True))


def markdown(text: str) -> str:
    """reStructuredText of a docstring as Markdown."""
    text = text.replace("``", "`")
    text = re.sub(r"^\.\. math:: *((?:.+\n?)+)", lambda m: f"```math\n{_lines(m.group(1))}\n```\n", text, flags=re.M)
    text = re.sub(r"^\.\. \[\d+\] *", "- ", text, flags=re.M)
    text = re.sub(r":math:`([^`]*)`", r"$`\1`$", text)
    return re.sub(r":(?:func|mod|meth|class):`(?:joulesim\.formulas\.)?([^`]*)`", r"`\1`", text).strip()


def _lines(equation: str) -> str:
    return "\n".join(line.strip() for line in equation.strip().splitlines())


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for module in modules():
        tree = ast.parse((FORMULAS / f"{module}.py").read_text("utf-8"))
        parts.append(f"## {module}\n\n{markdown(ast.get_docstring(tree))}\n")
        for node in functions(module):
            text = sections(ast.get_docstring(node))
            called = f"{module}.{node.name}"
            parts.append(f"### [`{called}`](../joulesim/formulas/{module}.py)\n\n{markdown(text[''])}\n\n"
                         f"`{called.rpartition('.')[2]}({ast.unparse(node.args)})`\n")
            parts += [f"{markdown(text[name])}\n" for name in ("Notes", "References") if name in text]
    return "\n".join(parts)


if __name__ == "__main__":
    (HERE / "formulas.md").write_text(page(), "utf-8")

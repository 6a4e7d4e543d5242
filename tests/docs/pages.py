"""The project's pages as text, and the fenced blocks in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """Text of a page."""
    return (ROOT / name).read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def section(text: str, title: str) -> str:
    """From a second-level heading to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert found, f"no section {title!r}"
    return found.group(1)

"""Commands and Python of README and how-to run as printed."""

import io
import re
import shlex
from contextlib import redirect_stdout

import pytest

from joulesim.cli import main
from tests.docs.pages import ROOT, blocks, page, section

PAGES = ("README.md", "docs/how-to.md")
SLOW = ("joulesim validate published --", "joulesim measure", "joulesim optimise", "joulesim validate local",
        "joulesim validate claims")
"""Commands that fit, measure or search: they have tests of their own."""
FILES = {"my-measurements.csv": blocks(section(page("docs/how-to.md"), "Check predictions against a table of your own"),
                                       "csv")[0]}
"""Files that a reader brings."""


def commands(name: str) -> list[str]:
    """Commands of a page's console blocks."""
    lines = [line.removeprefix("$ ") for block in blocks(page(name), "console") for line in block.splitlines()]
    return [line for line in lines if line.startswith("joulesim ") and not line.startswith(SLOW)]


COMMANDS = list(dict.fromkeys(command for name in PAGES for command in commands(name)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_runs(command, folder, capsys):
    status = main(shlex.split(command, comments=True)[1:])
    printed = capsys.readouterr()
    assert printed.err == "" and printed.out
    assert status == (1 if "--require-feasible" in command and "does not fit" in printed.out else 0)


@pytest.mark.parametrize(("name", "number"), [(name, i) for name in PAGES for i in range(len(blocks(page(name), "python")))])
def test_the_python_runs(name, number, folder):
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(blocks(page(name), "python")[number], f"{name}, block {number}", "exec"), {})
    assert printed.getvalue()


def test_a_refused_row_leaves_the_others(folder, capsys):
    assert main(["validate", "published", "my-measurements.csv", "-o", "csv"]) == 0
    _, first, second, refused = capsys.readouterr().out.splitlines()
    assert first.endswith(",") and second.endswith(",") and "a-model-nobody-knows" in refused


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_lead_somewhere(name):
    here = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page(name), flags=re.S)):
        assert target.startswith("http") or (here / target).exists(), target

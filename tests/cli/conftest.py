"""Commands run in this process; nothing may end in a traceback or a warning."""

import warnings
from typing import NamedTuple

import pytest

from joulesim.cli import main


class Ran(NamedTuple):
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str


@pytest.fixture
def joulesim(capsys):
    """Run ``joulesim`` with arguments."""

    def run(*arguments) -> Ran:
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            status = main([str(a) for a in arguments])
        return Ran(status, *capsys.readouterr())

    return run


@pytest.fixture
def refused(joulesim):
    """Run a command that must end with 2, and give its lines."""

    def run(*arguments) -> list[str]:
        ran = joulesim(*arguments)
        assert ran.status == 2, ran
        assert ran.out == ""
        lines = ran.err.splitlines()
        assert lines and all(line.startswith("joulesim: ") for line in lines), ran.err
        return lines

    return run

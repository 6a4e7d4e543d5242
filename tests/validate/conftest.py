"""Commands run in this process, as in ``tests/cli``."""

from tests.cli.conftest import joulesim  # noqa: F401

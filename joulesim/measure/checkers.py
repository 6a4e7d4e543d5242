"""
Whether an answer is right.

Code that a model wrote is run only when that was allowed: in a subprocess with limits of time, memory, files and
processes, in namespaces that hold no network and show every file read-only. Where the kernel gives none, code is
refused.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from joulesim.errors import Fault, InputError, did_you_mean

CODE_TIME = 5.0
"""Wall time that code may take. [s]"""
CODE_MEMORY = 1 << 29
"""Address space that code may have. [B]"""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def exact(text: str, wanted: Any) -> bool:
    """The same text, blanks and case aside; any of several."""
    return " ".join(text.split()).lower() in {" ".join(str(w).split()).lower() for w in _several(wanted)}


def contains(text: str, wanted: Any) -> bool:
    """One of the wanted texts is in it as a word of its own, case aside."""
    return any(re.search(rf"(?<!\w){re.escape(str(w))}(?!\w)", text, re.IGNORECASE) for w in _several(wanted))


def numeric(text: str, wanted: Any) -> bool:
    """
    The last number of the text is the wanted one.

    >>> numeric("3 + 4 = 7. The answer is 7.", "7"), numeric("It is 1,000.5", 1000.5), numeric("none", 1)
    (True, True, False)
    """
    found = _NUMBER.findall(text)
    return bool(found) and abs(float(found[-1].replace(",", "")) - float(wanted)) < 1e-6


def choice(text: str, wanted: Any) -> bool:
    """
    The first capital letter that stands alone is the wanted choice.

    >>> choice("The answer is (B).", "B"), choice("Because A is wrong, B", "B")
    (True, False)
    """
    found = re.search(r"(?<![A-Za-z])([A-Z])(?![A-Za-z'])", text)
    return bool(found) and found.group(1) == str(wanted).strip().upper()


def regex(text: str, wanted: Any) -> bool:
    """The pattern is in the text."""
    return re.search(str(wanted), text) is not None


def code(text: str, wanted: Any) -> bool:
    """The code passes the tests that stand in ``wanted``."""
    fenced = re.search(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    program = (fenced.group(1) if fenced else text) + "\n" + str(wanted) + "\n"
    with tempfile.TemporaryDirectory(prefix="joulesim-code-") as folder:
        try:
            silent = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
            done = subprocess.run([sys.executable, "-I", "-c", _CONFINE + program], cwd=folder, timeout=CODE_TIME,
                                  env={}, start_new_session=True, **silent)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return False
        if done.returncode == _NO_SANDBOX:
            what = "code answers cannot be run: this system lets no process give up the network"
            raise InputError(Fault("task", what, "run it in a Linux container that allows user namespaces"))
        return done.returncode == 0


_NO_SANDBOX = 77
"""Exit status of a subprocess that could not be confined."""
_CONFINE = f"""\
import resource as _r
for _what, _most in ((_r.RLIMIT_CPU, {int(CODE_TIME)}), (_r.RLIMIT_AS, {CODE_MEMORY}), (_r.RLIMIT_FSIZE, 1 << 20),
                     (_r.RLIMIT_NOFILE, 32), (_r.RLIMIT_CORE, 0)):
    _r.setrlimit(_what, (_most, _most))
import ctypes as _c
try:
    _own = _c.CDLL(None)
    _user, _net, _mounts = 0x10000000, 0x40000000, 0x20000
    if _own.unshare(_user | _net | _mounts) and _own.unshare(_net | _mounts):
        raise OSError
    _private, _recursive, _here, _mount_setattr = 1 << 18, 1 << 14, -100, 442
    _own.mount(None, b"/", None, _c.c_ulong(_private | _recursive), None)
    _read_only = (_c.c_uint64 * 4)(1, 0, 0, 0)
    if _own.syscall(_mount_setattr, _here, b"/", 0x8000, _read_only, _c.c_size_t(32)):
        raise OSError
except (OSError, AttributeError):
    import os as _o
    _o._exit({_NO_SANDBOX})
_r.setrlimit(_r.RLIMIT_NPROC, (0, 0))
del _r, _c, _own, _read_only
"""

CHECKS: dict[str, Callable[[str, Any], bool]] = {
    "exact": exact, "contains": contains, "numeric": numeric, "choice": choice, "regex": regex, "code": code,
}
"""Checks by name."""


def check(kind: str, allow_code: bool, where: str) -> Callable[[str, Any], bool]:
    """A check by name; code only where it was allowed."""
    if kind not in CHECKS:
        hint = did_you_mean(kind, CHECKS) or f"there is {', '.join(CHECKS)}"
        raise InputError(Fault(where, f"no check {kind!r}", hint))
    if kind == "code" and not allow_code:
        what = "its answers are code that would have to be run, which was not allowed"
        raise InputError(Fault(where, what, "--allow-code-execution runs it in a limited subprocess"))
    return CHECKS[kind]


def _several(wanted: Any) -> list:
    return wanted if isinstance(wanted, list) else [wanted]

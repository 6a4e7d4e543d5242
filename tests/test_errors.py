"""Faults: one line each, where: what was expected, what came; what to do."""

import pytest

from joulesim.errors import Fault, InputError, JoulesimError, NotFoundError, did_you_mean


def test_a_fault_is_one_line():
    fault = Fault("hardware/h200.yaml: memory_bandwidth", "expected byte/second, got '4.8\nTB'", "write it as '4.8 TB/s'")
    assert str(fault) == "hardware/h200.yaml: memory_bandwidth: expected byte/second, got '4.8 TB'; write it as '4.8 TB/s'"


def test_a_question_is_a_sentence_of_its_own():
    fault = Fault("hardware/h200.yaml: memory_bandwith", "no such field", "Did you mean memory_bandwidth?")
    assert str(fault) == "hardware/h200.yaml: memory_bandwith: no such field. Did you mean memory_bandwidth?"


def test_place_and_remedy_are_optional():
    assert str(Fault("", "no command 'x'")) == "no command 'x'"


def test_an_error_carries_every_fault_one_a_line():
    error = InputError([Fault("a", "b"), Fault("c", "d", "e")])
    assert str(error) == "a: b\nc: d; e"
    assert [f.where for f in error.faults] == ["a", "c"]


@pytest.mark.parametrize("error, builtin", [(InputError, ValueError), (NotFoundError, LookupError)])
def test_errors_are_also_their_builtins(error, builtin):
    with pytest.raises(builtin, match="a: b"):
        raise error(Fault("a", "b"))
    assert issubclass(error, JoulesimError)


@pytest.mark.parametrize("name, hint", [("memory_bandwith", "Did you mean memory_bandwidth?"), ("zzz", ""), ("", "")])
def test_did_you_mean(name, hint):
    assert did_you_mean(name, ["memory_bandwidth", "memory_capacity", "name"]) == hint

"""Failures that nobody foresaw: which are contained, and how they are told (docs/architecture, 'What a failure may
cost')."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from distkv.engine.faults import REPEAT, Faults
from distkv.errors import DuplicateNameError, InternalError, PeerError, RequestError, StaleError, StorageFailedError


def _group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("outer", [ExceptionGroup("inner", list(errors))])


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), RequestError("no"), _group(PeerError("a"), OSError())])
def test_failure_is_counted_and_its_victim_is_told_an_id(error: Exception) -> None:
    counters = Counter[str]()
    told = Faults(counters).contain(error, "a get")
    assert isinstance(told, InternalError)
    assert str(told).startswith("internal error ")
    assert "in a get: the log of the server says more" in str(told)
    assert counters == {"faults_contained": 1}


@pytest.mark.parametrize("error", [StorageFailedError("disk"), StaleError("old"), DuplicateNameError("twice")])
@pytest.mark.parametrize("is_alone", [True, False])
def test_failure_that_must_end_the_node_is_raised_again(error: Exception, is_alone: bool) -> None:
    counters, given = Counter[str](), error if is_alone else _group(KeyError("x"), error)
    with pytest.raises(type(given)) as raised:
        Faults(counters).contain(given, "a get")
    assert raised.value is given
    assert counters == {}


def test_failure_at_one_place_is_logged_once_in_a_hundred_times(caplog: pytest.LogCaptureFixture) -> None:
    faults, ids = Faults(Counter()), set[str]()
    with caplog.at_level(logging.ERROR):
        for _ in range(2 * REPEAT + 1):
            try:
                {}["nothing"]
            except KeyError as error:
                ids.add(str(faults.contain(error, "a get")))
    assert len(ids) == 1
    assert [record.args[3] for record in caplog.records if isinstance(record.args, tuple)] == [1, 101, 201]

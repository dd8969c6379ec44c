"""One node of the activity network alone."""

from __future__ import annotations

import random

from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.requests import ActivityGiven, Attend, LoggedIn, Login, SendActivity, Taken
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ready import Answer, ServiceAsked
from distkv.model.event import NodeName
from tests.service_steps import LIFE, WALL, began, ground_of, stepped


def test_node_that_is_alone_gives_its_clients_what_one_says_at_once() -> None:
    machine = ActivityMachine(ActivitySettings(), random.Random(1))
    began(machine, ACTIVITY, ground_of(NodeName("a"), LIFE, WALL, {}))
    stepped(machine, ACTIVITY, 0, ServiceAsked(ACTIVITY, 1, Attend(1, "127.0.0.1", 7001)))
    logged_in = stepped(machine, ACTIVITY, 0, ServiceAsked(ACTIVITY, 2, Login(1, "ann")))
    assert [one.result for one in logged_in if isinstance(one, Answer)] == [LoggedIn()]
    said = stepped(machine, ACTIVITY, 0, ServiceAsked(ACTIVITY, 3, SendActivity(1, 2, (b"{}",))))
    answers = {one.id: one.result for one in said if isinstance(one, Answer)}
    given = answers[1]
    assert isinstance(given, ActivityGiven)
    assert (given.item.number, answers[3]) == (1, Taken(given.item.origin, 1, 1))

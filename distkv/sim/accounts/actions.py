"""What users and operators do with accounts, and how scenario files write it.

Knows: which actions there are.  Does not know how they are carried out (`crowd`).

Invariant: an action is a plain value; nothing of it depends on what happened before.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.core.accounts.requests import ACCOUNTS
from distkv.sim import forms
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.forms import Verb, mention


@attrs.frozen
class RegisterUser(ServiceAction):
    """Somebody registers a name at a node."""

    service = ACCOUNTS
    node: str
    name: str
    secret: str


@attrs.frozen
class LoginUser(ServiceAction):
    """Somebody logs in at a node."""

    service = ACCOUNTS
    node: str
    name: str
    secret: str


@attrs.frozen
class RemoveUser(ServiceAction):
    """An operator removes an account."""

    service = ACCOUNTS
    node: str
    name: str


@attrs.frozen
class ShowAccounts(ShowService):
    """Show what each node has of accounts."""

    service = ACCOUNTS


UserAction: TypeAlias = RegisterUser | LoginUser | RemoveUser

_NAME: Final = forms.text("name", "the name")
_SECRET: Final = forms.text("secret", "the secret")

VERBS: Final = (
    Verb("register", RegisterUser, (mention("node"), _NAME, _SECRET)),
    Verb("login", LoginUser, (mention("node"), _NAME, _SECRET)),
    Verb("remove-account", RemoveUser, (mention("node"), _NAME)),
    Verb("accounts", ShowAccounts),
)

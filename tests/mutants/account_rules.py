"""Mutants of accounts: what makes a name belong to one, and a secret to its owner."""

from __future__ import annotations

from tests.mutants.broken import broken

CHANGES = "tests/unit/core/test_account_changes.py"
LOGINS = "tests/unit/core/test_account_logins.py"
TOKENS = "tests/unit/core/test_token_machine.py"
RUNS = "tests/property/test_account_runs.py"

ACCOUNT_RULES = (
    broken(
        "account-unsure-is-believed",
        "an entry that is not sure does not say who the owner is",
        "core/accounts/logins.py",
        "        if known is not None and known.sure:\n",
        "        if known is not None and known.secret is not None:\n",
        LOGINS,
    ),
    broken(
        "account-right-before-it-is-sure",
        "an entry that is not sure logs in nobody before it is settled",
        "core/accounts/logins.py",
        "        if login.entry.sure:\n",
        "        if login.entry.secret is not None:\n",
        LOGINS,
    ),
    broken(
        "account-sure-before-the-token-is-back",
        "only who gave the token back held it throughout",
        "core/accounts/changes.py",
        "        change.stage = ChangeStage.RELEASING\n",
        "        return self._succeed(turn, change)\n",
        CHANGES,
    ),
    broken(
        "account-not-taken-back",
        "a registration that failed writes that the name is free",
        "core/accounts/changes.py",
        "        if change.kind is ChangeKind.REGISTER:\n            self._put",
        "        if False:\n            self._put",
        CHANGES,
    ),
    broken(
        "account-own-disk-is-enough",
        "a registration succeeds when a majority of the token servers has the entry",
        "core/accounts/changes.py",
        "        if not has:\n            lacking",
        "        if not opinions.answers:\n            lacking",
        CHANGES,
    ),
    broken(
        "account-no-majority-is-asked",
        "the name is free when a majority of the token servers says so",
        "core/accounts/changes.py",
        "        if not opinions.is_majority:\n            return\n",
        "",
        CHANGES,
    ),
    broken(
        "account-one-list-counts",
        "while the token servers change, both lists count",
        "core/accounts/opinions.py",
        "        return bool(self._lists) and all(",
        "        return bool(self._lists) and any(",
        CHANGES,
    ),
    broken(
        "account-held-by-one",
        "a registration that nobody finished counts only where a majority has it",
        "core/accounts/opinions.py",
        "    return len(list) // 2 + 1\n",
        "    return len(list) // 2\n",
        CHANGES,
    ),
    broken(
        "account-unfinished-is-overwritten",
        "a registration that nobody finished, and a majority has, keeps its name",
        "core/accounts/changes.py",
        "            if fate is Fate.HELD and is_register:\n                self._end(turn, change, taken)\n",
        "            if fate is Fate.HELD and is_register:\n                self._write(turn, change, change.secret)\n",
        CHANGES,
    ),
    broken(
        "account-settled-under-its-old-fence",
        "what is settled is written under the fence of the token that was taken for that",
        "core/accounts/changes.py",
        "                self._write(turn, change, best.secret)\n",
        "                self._end(turn, change, best)\n",
        LOGINS,
    ),
    broken(
        "account-unknown-here-is-wrong",
        "a name that is not here is asked of the token servers",
        "core/accounts/logins.py",
        "        else:\n            self._look(turn, login)\n        if len",
        "        else:\n            self._answer(turn, login, _wrong())\n        if len",
        LOGINS,
    ),
    broken(
        "account-pair-without-its-salt",
        "a secret that was right for an account that was removed is not right for the next one",
        "core/accounts/right_secrets.py",
        "        return blake2b(kept.hash + kept.salt + secret, key=self._key).digest()\n",
        "        return blake2b(secret, key=self._key).digest()\n",
        LOGINS,
    ),
    broken(
        "account-names-do-not-take-turns",
        "who tries many secrets for one name does not delay the others",
        "core/accounts/hash_queue.py",
        "            username = next(iter(names))\n",
        "            username = max(names, key=lambda one: len(names[one]))\n",
        LOGINS,
    ),
    broken(
        "account-hosts-do-not-take-turns",
        "wrong secrets for a name do not keep out its owner, who comes from another host (ACCOUNT-13)",
        "core/accounts/logins.py",
        "self._queue.add(turn, login.source, login.username",
        "self._queue.add(turn, 0, login.username",
        LOGINS,
    ),
    broken(
        "account-last-one-is-refused",
        "the host from which most logins come gives up a place (ACCOUNT-14)",
        "core/accounts/crowding.py",
        "    return next(one for one in reversed([*sources]) if counts[sources[one]] == most)\n",
        "    return next(one for one in reversed([*sources]) if most)\n",
        LOGINS,
    ),
    broken(
        "account-unknown-names-take-all-places",
        "names that are not known at a node leave half of the places for those that are (ACCOUNT-14)",
        "core/accounts/logins.py",
        " > self._waiting_max // 2 or",
        " > self._waiting_max or",
        LOGINS,
    ),
    broken(
        "account-each-login-has-a-hash",
        "all who try one secret for one account wait for one hash",
        "core/accounts/logins.py",
        "        if purpose not in self._hashing:\n",
        "        if self._hashing is not None:\n",
        LOGINS,
    ),
    broken(
        "account-token-of-clients",
        "tokens whose names begin with `:` are for services",
        "core/tokens/machine.py",
        "name is not None and is_of_client(id)",
        "name is not None and is_of_client(-id)",
        TOKENS,
    ),
)

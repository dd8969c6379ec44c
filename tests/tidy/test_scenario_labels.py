"""Every rule of the protocol that a small network can show has a scenario file that shows it, and is a short one.

Knows: which sections of docs/protocol are told sentence by sentence, and which other rules are traps into which a model
fell.  Does not know whether a scenario shows its rule: whoever writes it does.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.offenders import assert_none
from tests.scenarios.files import FILES, cited

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.rst").read_text(encoding="utf-8")
SECTIONS = (
    "Ping election",
    "Start-up",
    "Lives and names",
    "Recovery",
    "Between two nodes over TCP",
    "Values that go by themselves",
    "Forgetting deletions",
    "Last resort",
    "The server tree",
    "The token servers",
    "Which server serves a token",
    "Tokens",
    "Sessions",
    "Who owns a topic",
    "What a topic is",
    "Copies of a topic",
    "What topics forget",
    "What a client is answered about a topic",
    "Accounts",
    "The activity network",
)
"""All their sentences have a scenario. Those about groups without an agent have none: nodes of a scenario are told who
is there. Fleets of bare machines show them (tests/unit/swim)."""
TRAPS = (
    ("TICK-3", "a wiped node never repeats a tick"),
    ("APPLY-3", "what was held once is not applied again"),
    ("OPEN-2", "open losers are replicated"),
    ("OPEN-5", "cutting chains does not change what is open"),
    ("OPEN-6", "a decision closes one loser, everywhere"),
    ("OPEN-7", "and not another one of its own writer"),
    ("LOST-1", "what nobody has ends the wait"),
    ("LOST-2", "and comes when its holder does"),
    ("NET-2", "networks never merge"),
    ("REG-2", "a joiner is registered before its snapshot"),
    ("REG-3", "a name that joined twice"),
    ("RETIRE-1", "who is gone for good holds up nothing"),
)
"""Rules of other sections where the obvious reading loses something or diverges."""
ELSEWHERE = {
    "PING-14": "what was seen is told to people, and moves nothing: tests/unit/core/test_bounds.py",
    "START-15": "the daemon ends, before a node begins: tests/process/test_cluster_agents.py",
    "PEER-1": "no small network has 1,024 strangers: tests/unit/core/test_recovery_choice.py",
    "TREE-13": "no scenario says 4,096 things: tests/unit/core/test_flood.py",
    "LINK-9": "no connection of the simulator has ends that could change places: tests/node/test_lending.py",
    "PING-15": "it is told to people only: tests/unit/core/test_bounds.py",
    "PING-16": "it is told to people only: tests/unit/core/test_bounds.py",
    "TREE-5": "no scenario measures round trips: tests/unit/core/test_server_tree.py",
    "TREE-17": "nodes of a scenario answer at their own addresses: tests/unit/core/test_server_tree.py",
    "TREE-18": "no clock of a scenario goes back so far: tests/unit/core/test_flood.py",
    "TREE-19": "no scenario says so much that something is gone: tests/unit/core/test_ground_frames.py",
    "TREE-20": "no service of a scenario announces fields: tests/unit/core/test_ground_frames.py",
    "TREE-21": "the simulator has one release only: tests/unit/core/test_ground_frames.py",
    "TREE-14": "no scenario has so many nodes: tests/unit/core/test_server_tree.py",
    "FENCE-6": "the simulator has one release only: tests/unit/wire/test_fences.py",
    "LIFE-13": "no client of a scenario reads a single path: tests/node/test_lost_values.py",
    "LIFE-15": "no scenario writes for so long: tests/unit/core/test_old_disk.py",
    "LIFE-16": "no disk of a scenario stays old: tests/unit/core/test_old_disk.py",
    "LIFE-17": "a trace does not tell the mark: tests/unit/core/test_old_disk.py",
    "LIFE-21": "what rots in a scenario is a winner: tests/unit/core/test_damaged.py",
    "LIFE-22": "no client of a scenario reads a single path: tests/node/test_lost_values.py",
    "LIFE-23": "no client of a scenario reads a single path: tests/node/test_lost_values.py",
    "NAME-10": "a trace does not tell what a node would write: tests/unit/core/test_lives.py",
    "PURGE-8": "a round is over in a moment: tests/unit/core/test_deletion.py",
    "GAP-5": "no scenario misses so many ticks: tests/unit/core/test_recovery_fleet.py",
    "GAP-6": "no scenario misses so many ticks: tests/unit/core/test_recovery_fleet.py",
    "SYNC-6": "no fault of a scenario gives one tick two contents: tests/unit/core/test_resync.py",
    "XCHG-7": "no scenario has so many open losers: tests/unit/core/test_recovery_fleet.py",
    "PULL-3": "no node answers what it was not asked: tests/unit/core/test_peers_hostile.py",
    "QUORUM-1": "all servers of the simulator have one list: tests/unit/core/test_token_consensus.py",
    "QUORUM-5": "nobody sees what is not proposed: tests/unit/core/test_token_consensus.py",
    "QUORUM-6": "no small network has two candidates in one term: tests/unit/core/test_token_consensus.py",
    "QUORUM-10": "a way is cut for both ends of a connection: tests/property/test_token_consensus.py",
    "QUORUM-21": "no node of a scenario forges an entry: tests/property/test_token_forged.py",
    "LEASE-5": "it lasts as long as one proposal: tests/unit/core/test_token_consensus.py",
    "LEASE-6": "a server learns of a version with the round that calls it so: tests/unit/core/test_token_consensus.py",
    "PART-4": "no client of the simulator hears two servers at once: tests/unit/client/test_holding.py",
    "PART-5": "leases prevent it, as far as we know: tests/unit/core/test_token_part.py",
    "TOKEN-7": "the client's half does not ask for what it holds: tests/unit/core/test_token_grants.py",
    "TOKEN-11": "a client asks again for what it was not told: tests/unit/core/test_token_grants.py",
    "TOKEN-14": "a second request of a session takes the place of the first: tests/unit/core/test_token_calls.py",
    "TOKEN-16": "scenarios have no watches of tokens: tests/property/test_token_service.py",
    "TOKEN-21": "no client of the simulator lists tokens: tests/property/test_token_service.py",
    "SESSION-11": "no client of the simulator goes on with what was taken: tests/unit/core/test_token_sessions.py",
    "SESSION-14": "no scenario opens so many: tests/unit/core/test_token_shares.py",
    "SESSION-15": "hosts of a scenario have no addresses: tests/unit/core/test_token_shares.py",
    "SESSION-5": "it needs a keep-alive in the last moment of a lease: tests/unit/core/test_token_sessions.py",
    "TOPIC-13": "no disk of a scenario loses one copy only: tests/unit/core/test_topic_owners.py",
    "TOPIC-15": "no client of a scenario writes an entry: tests/unit/core/test_topic_owners.py",
    "STATE-9": "no disk of a scenario loses one row only: tests/unit/core/test_topic_disk.py",
    "COPY-2": "a trace does not tell batches: tests/unit/core/test_topic_copy_stream.py",
    "ACCOUNT-1": "no client of a scenario reads an entry: tests/process/test_accounts.py",
    "ACCOUNT-6": "no list of a scenario changes so slowly: tests/unit/core/test_account_changes.py",
    "ACCOUNT-11": "a trace does not tell what lost: tests/unit/core/test_account_entries.py",
    "ACCOUNT-12": "no scenario loses a majority of its disks at once: tests/unit/core/test_account_entries.py",
    "ACCOUNT-13": "hashes of a scenario take no time: tests/unit/core/test_account_logins.py",
    "ACTIVITY-15": "clients of a scenario resume: tests/unit/core/test_activity_logins.py",
    "ACTIVITY-16": "clients of a scenario resume: tests/unit/core/test_activity_logins.py",
    "ACTIVITY-13": "a trace does not tell what is asked: tests/unit/core/test_activity_logins.py",
    "ACCOUNT-15": "no scenario changes its servers before they hear: tests/unit/core/test_account_changes.py",
    "ACCOUNT-14": "hosts of a scenario have no addresses: tests/unit/core/test_account_logins.py",
    "COPY-10": "an answer must come late, from before the store changed: tests/unit/core/test_topic_leases.py",
    "COPY-11": "no scenario holds one answer up: tests/unit/core/test_topic_comparing.py",
}
"""Rules that no scenario can show, why, and what shows them."""
WORDS_MAX = 100
"""So many words has a label: what is longer says several things, and a test shows only some of them."""


def sections() -> dict[str, list[str]]:
    """The labels of each section."""
    parts = re.split(r"^(.+)\n-{3,}\n", PAGE, flags=re.MULTILINE)
    titles, bodies = parts[1::2], parts[2::2]
    return {t: re.findall(r"^\* \[(\w+-[0-9]+)\]", body, re.MULTILINE) for t, body in zip(titles, bodies, strict=True)}


def known() -> set[str]:
    """The labels of all sentences."""
    return {label for labels in sections().values() for label in labels}


def shown() -> set[str]:
    """The labels that scenarios cite."""
    return {label for path in FILES for label in cited(path)}


def words(page: str) -> dict[str, int]:
    """How many words each label of a page has."""
    found = re.findall(r"^\* \[(\w+-[0-9]+)\] (.+?)(?=^\S|\Z)", page, re.MULTILINE | re.DOTALL)
    return {label: len(text.split()) for label, text in found}


def test_no_label_has_more_than_a_hundred_words() -> None:
    assert words(PAGE).keys() == known()
    long = {label: count for label, count in words(PAGE).items() if count > WORDS_MAX}
    assert_none(long, "one label says one thing: give the rest a new number at the end of the family, and a test")


def test_words_of_a_label_end_with_it() -> None:
    assert words("* [A-1] One two.\n\n  Three.\n\nNot this.\n\n* [A-2] One\n  two.\n* [A-3] One.") == {
        "A-1": 3,
        "A-2": 2,
        "A-3": 1,
    }


def test_every_sentence_of_the_sections_has_a_scenario() -> None:
    labels = {label for title in SECTIONS for label in sections()[title]} | {label for label, _ in TRAPS}
    assert_none(sorted(labels - shown() - ELSEWHERE.keys()))


def test_scenarios_cite_labels_that_exist() -> None:
    labels = known()
    assert labels
    assert_none({path.stem: cited(path) - labels for path in FILES if cited(path) - labels})


def test_rules_that_are_shown_elsewhere_have_no_scenario() -> None:
    assert_none(ELSEWHERE.keys() & shown())
    assert_none([why for why in ELSEWHERE.values() if not (ROOT / why.rpartition(" ")[2]).exists()])

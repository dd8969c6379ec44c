"""The mutants that `make test` judges: some of each list, and of each topic of a list, that are judged soonest.

Knows: their names.  A soak judges all.
"""

from __future__ import annotations

SAMPLE = (
    "run-memory-order",
    "run-tie-break",
    "logged-missing-end",
    "logged-torn-or-damaged",
    "simulated-loser-dropped",
    "simulated-tick-reused",
    "simulated-gaps-stay",
    "simulated-purge-outlived",
    "simulated-tick-jump",
    "simulated-sponsor-too-early",
    "simulated-chain-unrecorded",
    "simulated-outbox-early",
    "shell-seeds-outbox-backwards",
    "shell-announcement-forgotten",
    "shell-another-answers",
    "shell-waiters-of-the-next",
    "shell-ask-dropped",
    "shell-half-a-step",
    "shell-held-before-durable",
    "shell-place-believed",
    "shell-pid-joined",
    "shell-in-effect-at-once",
    "shell-session-ends-early",
    "shell-granted-twice",
    "shell-answered-too-early",
    "shell-survey-of-nobody",
    "shell-number-far-ahead",
    "shell-seen-forgotten",
    "shell-owner-as-it-comes",
    "shell-loser-forgotten",
    "shell-no-list-in-the-store",
    "shell-lost-not-deleted",
    "shell-aside-of-many",
    "simulated-frames-of-the-retired",
    "shell-circle-offered",
    "shell-frame-twice",
    "shell-gap-silent",
    "shell-old-disk-untold",
)

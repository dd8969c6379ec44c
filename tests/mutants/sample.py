"""The mutants that `make test` judges: some of each list, and of each topic of a list, that are judged soonest.

Knows: their names.  A soak judges all.
"""

from __future__ import annotations

SAMPLE = ()

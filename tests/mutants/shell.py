"""Break one rule of engine, storage, services or of what a restart knows, and see that a test named here notices it.

Run `python -m tests.mutants shell`; it prints what killed each mutant.

Knows: how one is judged. Which there are, and by which tests each is noticed, stands in `account_rules.py`,
`activity_client_rules.py`, `activity_rules.py`, `commits.py`, `grounds.py`, `keeping.py`, `swim_rules.py`,
`swim_seal_rules.py`, `swim_shell_rules.py`, `token_rules.py`, `topic_copy_rules.py`, `topic_rules.py`,
`topic_owner_rules.py` and `tree_rules.py`. Most rules of the core stand in lists of their own (`run.py`,
`simulated.py`).

Invariant: as that of `run.py`: killed is what makes a test fail in a changed copy; all else that goes wrong is an
error.
"""

from __future__ import annotations

from tests.mutants.account_rules import ACCOUNT_RULES
from tests.mutants.activity_client_rules import ACTIVITY_CLIENT_RULES
from tests.mutants.activity_rules import ACTIVITY_RULES
from tests.mutants.activity_sim_rules import ACTIVITY_SIM_RULES
from tests.mutants.broken import Broken
from tests.mutants.commits import COMMITS
from tests.mutants.data_rows import DATA_ROWS
from tests.mutants.grounds import GROUNDS
from tests.mutants.keeping import KEEPING
from tests.mutants.run import failing_test, without
from tests.mutants.swim_rules import SWIM_RULES
from tests.mutants.swim_seal_rules import SWIM_SEAL_RULES
from tests.mutants.swim_shell_rules import SWIM_SHELL_RULES
from tests.mutants.token_rules import TOKEN_RULES
from tests.mutants.topic_client_rules import TOPIC_CLIENT_RULES
from tests.mutants.topic_copy_rules import TOPIC_COPY_RULES
from tests.mutants.topic_forget_rules import TOPIC_FORGET_RULES
from tests.mutants.topic_owner_rules import TOPIC_OWNER_RULES
from tests.mutants.topic_rules import TOPIC_RULES
from tests.mutants.tree_rules import TREE_RULES

BROKEN = (
    ACCOUNT_RULES + ACTIVITY_CLIENT_RULES + ACTIVITY_RULES + ACTIVITY_SIM_RULES + COMMITS + DATA_ROWS + GROUNDS
    + KEEPING + SWIM_RULES + SWIM_SEAL_RULES + SWIM_SHELL_RULES
    + TOKEN_RULES + TOPIC_CLIENT_RULES + TOPIC_COPY_RULES + TOPIC_FORGET_RULES + TOPIC_OWNER_RULES + TOPIC_RULES
    + TREE_RULES
)


def killer(broken: Broken, *, is_soaking: bool = False) -> str | None:
    """The test that notices, None when none does.

    Raises:
        MutantError: its words are not there once, or the tests could not be run.
    """
    with without(broken.mutant) as root:
        return failing_test(root, [broken.tests], is_soaking=is_soaking)

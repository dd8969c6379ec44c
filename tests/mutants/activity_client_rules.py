"""Mutants of what a client of the activity network and its node say to each other."""

from __future__ import annotations

from tests.mutants.broken import broken

TALK = "tests/unit/core/test_activity_conversation.py"
HALF = "tests/unit/client/test_activity_half.py"
LINES = "tests/unit/wire/test_activity_lines.py"

ACTIVITY_CLIENT_RULES = (
    broken(
        "activity-key-twice",
        "a key stands once in an object",
        "wire/activity_lines.py",
        "    if len(found) < len(pairs):\n",
        "    if False:\n",
        f"{LINES}::test_what_is_wrong_is_said",
    ),
    broken(
        "activity-number-lost",
        "a number is kept as it was written",
        "wire/activity_lines.py",
        "    if is_out_of_range or (",
        "    if (",
        f"{LINES}::test_what_is_wrong_is_said",
    ),
    broken(
        "activity-user-of-the-client",
        "who sent an activity is said by the node",
        "wire/activity_lines.py",
        "{**activity, USER_FIELD: user}",
        "{USER_FIELD: user, **activity}",
        f"{LINES}::test_user_is_set_whatever_stood_there",
    ),
    broken(
        "activity-of-somebody-else",
        "an activity has the name of the login",
        "core/activity/conversation.py",
        "        return line.username == self.user and not has_other_secret\n",
        "        return not has_other_secret\n",
        f"{TALK}::test_activity_of_somebody_else_is_no_right",
    ),
    broken(
        "activity-with-another-secret",
        "an activity with another secret is of somebody else",
        "core/activity/conversation.py",
        "        return line.username == self.user and not has_other_secret\n",
        "        return line.username == self.user\n",
        f"{TALK}::test_activity_of_somebody_else_is_no_right",
    ),
    broken(
        "activity-behind-others-unread",
        "a message behind activities is read when they are taken",
        "core/activity/conversation.py",
        "                    self._reader.put_back(text)\n",
        "",
        f"{TALK}::test_what_is_wrong_behind_activities_is_said_when_they_are_taken",
    ),
    broken(
        "activity-rights-before-form",
        "the form of a message is looked at before who sends it",
        "core/activity/conversation.py",
        "        activity = activity_text(line.activity, line.username)  # its form is looked at before who sends it\n"
        "        if self.phase is not TalkPhase.IN:\n"
        '            return self.refuse("not logged in: send LOGIN first", Ending.NO_RIGHT)\n',
        "        if self.phase is not TalkPhase.IN:\n"
        '            return self.refuse("not logged in: send LOGIN first", Ending.NO_RIGHT)\n'
        "        activity = activity_text(line.activity, line.username)\n",
        f"{TALK}::test_activity_that_grows_too_large_is_a_matter_of_form",
    ),
    broken(
        "activity-moved-before-taken",
        "a client is sent elsewhere when it knows what became of what it sent",
        "core/activity/conversation.py",
        "        if self.phase is TalkPhase.ASKING:\n            self._move",
        "        if False:\n            self._move",
        f"{TALK}::test_client_is_sent_elsewhere_when_what_it_sent_is_taken",
    ),
    broken(
        "activity-told-twice",
        "what was told before is not told again",
        "client/activity.py",
        "number <= self.reached.get(origin, 0):\n            return False",
        "number < self.reached.get(origin, 0):\n            return False",
        f"{HALF}::test_activity_that_was_told_before_is_not_told_again",
    ),
    broken(
        "activity-echo-elsewhere",
        "an echo on a later connection promises nothing",
        "client/activity.py",
        "            if sent.echo is not None or (sent.is_written and not is_known):\n",
        "            if sent.echo is None and sent.is_written and not is_known:\n",
        f"{HALF}::test_echo_on_a_later_connection_promises_nothing",
    ),
    broken(
        "activity-sent-again",
        "what may have been taken is not sent again",
        "client/activity.py",
        "            if sent.echo is not None or (sent.is_written and not is_known):\n",
        "            if sent.echo is not None:\n",
        f"{HALF}::test_nobody_knows_what_becomes_of_what_was_sent_when_the_connection_breaks",
    ),
    broken(
        "activity-not-sent-again",
        "what was not taken before a redirect is sent to the next node",
        "client/activity.py",
        "is_known, self._place.is_in = self._is_last_word, False",
        "is_known, self._place.is_in = False, False",
        f"{HALF}::test_what_was_not_taken_before_a_redirect_is_sent_to_the_next_node",
    ),
)

"""How long what waits at a token server waits while the server may not answer.

Knows: when it could grant last, and whether those who wait were refused since.  Does not know who waits.

Invariant: they are refused once, a lease after it could grant last. What the leader is asked is refused a lease after
the node led last, if that is later.
"""

from __future__ import annotations

from typing import Final


class ServingPatience:
    """All times are milliseconds."""

    def __init__(self, lease_ms: int, now_ms: int) -> None:
        self._lease_ms: Final = lease_ms
        self.sure_ms = now_ms
        """When it last could grant, or when it started. May be set to a later moment at which it can still."""
        self._has_refused = False
        self._has_refused_sessions = False
        self.is_serving = False
        """Whether it could grant when it was looked at last."""
        self.due_ms: int | None = now_ms + lease_ms
        """Not after the moment when somebody has to be refused; only read."""

    def go_on(self, now_ms: int, *, may_grant: bool) -> bool:
        """Time passed, or what it may do is another thing; whether it may grant again."""
        was_serving, self.is_serving = self.is_serving, may_grant
        if may_grant:
            self.grants(now_ms)
        return may_grant and not was_serving

    def grants(self, now_ms: int) -> None:
        """It may grant now."""
        self.sure_ms, self.due_ms = now_ms, now_ms + self._lease_ms
        self._has_refused = self._has_refused_sessions = False

    def run_out(self, now_ms: int) -> bool:
        """Whether those who wait for tokens are to be refused now; that is said once."""
        is_over = not self._has_refused and now_ms >= self.sure_ms + self._lease_ms
        self._has_refused |= is_over
        if not self._has_refused:
            self.due_ms = self.sure_ms + self._lease_ms
        return is_over

    def run_out_for_sessions(self, now_ms: int, led_ms: int) -> bool:
        """Whether those who ask the leader are; the same. `led_ms`: until when this node leads, or led."""
        end_ms = max(self.sure_ms, led_ms) + self._lease_ms
        is_over = not self._has_refused_sessions and now_ms >= end_ms
        self._has_refused_sessions |= is_over
        if self._has_refused:
            self.due_ms = None if self._has_refused_sessions else end_ms
        return is_over

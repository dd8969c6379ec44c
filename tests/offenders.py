"""What breaks a rule: a test that looks at many files names all of those that break it.

Knows: how they are told.  Does not know any rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def assert_none(found: Collection[object], advice: str = "") -> None:
    """Nothing breaks the rule.

    If something does, all of it is told, a line each: of a comparison with nothing pytest shows only the beginning.
    """
    __tracebackhide__ = True
    parts = found.items() if isinstance(found, Mapping) else found
    lines = [": ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in parts]
    if lines:
        raise AssertionError("\n".join([advice or "what breaks the rule:", *lines]))

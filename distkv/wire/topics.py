"""What the topic service is asked and answers, as `services` wants it declared.

Knows: where its requests, replies and errors are.  Does not know what is in them.
"""

from __future__ import annotations

from typing import Final

from distkv.wire.services import ServiceForm
from distkv.wire.topic_errors import ERRORS
from distkv.wire.topic_replies import reply_fields
from distkv.wire.topic_requests import TOPIC_ROWS, TopicDrop, TopicRequest, TopicSet


def _logged(request: TopicRequest) -> str:
    if isinstance(request, TopicSet):
        return f"topic_set topic={request.topic!r}"
    if not isinstance(request, TopicDrop):
        return ""
    parts = {"subscriber": request.subscriber, "producer": request.producer}
    what = "".join([f" {name}={given!r}" for name, given in parts.items() if given is not None])
    return f"topic_drop topic={request.topic!r}{what}{' force' if request.force else ''}"


FORM: Final = ServiceForm(
    "topics",
    TOPIC_ROWS,
    reply_fields,
    when_off="this node does not know topics",
    errors=ERRORS,
    logged=_logged,
)

"""All that the topic services of two nodes ask each other.

Knows: where each kind of question is declared.  Does not know what they mean.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.wire.declared import BodyReader
from distkv.wire.routed import RoutedQuestion
from distkv.wire.topic_messages import CopyQuestion
from distkv.wire.topic_rounds import RoundAsked

NodeQuestion: TypeAlias = RoutedQuestion | CopyQuestion | RoundAsked

NODE_QUESTIONS: Final = BodyReader[NodeQuestion](NodeQuestion, "question")

"""Mutants of the clients' halves of topics: numbers, floors, tags and names of puts; what is handed out and said."""

from __future__ import annotations

from tests.mutants.broken import broken

PRODUCING = ("tests/unit/client/test_producing.py", "tests/property/test_topic_clients.py")
CONSUMING = ("tests/unit/client/test_consuming.py", "tests/property/test_topic_clients.py")
STATE = ("tests/unit/client/test_topic_state.py",)

TOPIC_CLIENT_RULES = (
    broken(
        "no-turn-after-a-new-name",
        "what waited has its turn when a new name has room",
        "client/producing.py",
        "        self._admit(was.topic)  # no open put of the new name is far behind\n",
        "",
        *PRODUCING,
    ),
    broken(
        "no-room-for-a-former-name",
        "what may be taken has room under the new name",
        "client/producing.py",
        "        return stream.counter - floor + former < OPEN_MAX\n",
        "        return len(self.open) < OPEN_MAX and stream.counter - floor < OPEN_MAX\n",
        *PRODUCING,
    ),
    broken(
        "put-sent-before-it-is-written",
        "nothing is sent before the state that names it is written",
        "client/producing.py",
        "                if put.is_written and put.call is None:\n",
        "                if put.call is None:\n",
        *PRODUCING,
    ),
    broken(
        "number-used-again-after-a-crash",
        "a number is used once, also after a crash",
        "client/producing.py",
        "        self._change.streams[topic] = of.stream\n",
        "        self._change.streams.setdefault(topic, of.stream)\n",
        *PRODUCING,
    ),
    broken(
        "taken-is-only-asked-again",
        "a taken number takes another name",
        "client/producing.py",
        "            self._rename(put)\n",
        "            self._lose(put, now_ms)\n",
        *PRODUCING,
    ),
    broken(
        "new-state-takes-the-plain-name",
        "a state that knows nothing of a topic begins a new name",
        "client/producing.py",
        '        return f"{self.id}~{self._random_bytes(SUFFIX_BYTES).hex()}"\n',
        "        return self.id\n",
        *PRODUCING,
    ),
    broken(
        "refusal-told-before-it-is-written",
        "a put that was refused for good is not sent again, also after a crash",
        "client/producing.py",
        "        self._told_then.append(PutRefused(put.number, error, may_have_happened=not put.is_certain))\n",
        "        self._news.append(PutRefused(put.number, error, may_have_happened=not put.is_certain))\n",
        *PRODUCING,
    ),
    broken(
        "lost-answer-counts-as-nothing",
        "what was not answered may have happened",
        "client/producing.py",
        "        put.is_certain = False\n        self._again_later(put, now_ms)\n",
        "        self._again_later(put, now_ms)\n",
        *PRODUCING,
    ),
    broken(
        "unknown-is-ignored",
        "what servers know as done and the state does not is written before anything is handed out",
        "client/consuming.py",
        "        self._write(ConsumerChange(answer.op, is_subscribed=True, done=unknown))\n",
        "        self._write(ConsumerChange(answer.op, is_subscribed=True))\n",
        *CONSUMING,
    ),
    broken(
        "done-messages-are-handed-out",
        "what the state has as done is not handed out",
        "client/consuming.py",
        "            if self.is_done(*one):\n",
        "            if False:\n",
        *CONSUMING,
    ),
    broken(
        "done-is-forgotten-without-an-answer",
        "done is said until it is answered",
        "client/consuming.py",
        "                said = tuple(islice(self._to_say, SAID_MAX))\n",
        "                said = tuple(islice(self._to_say, SAID_MAX))\n                self._to_say.clear()\n",
        *CONSUMING,
    ),
    broken(
        "unconfirmed-operation-is-repeated",
        "an operation that no server confirmed is not repeated over an older subscription",
        "client/consuming.py",
        "known = self._talk.known_op or (op if self._state.is_subscribed else None)\n",
        "known = self._talk.known_op or op\n",
        *CONSUMING,
    ),
    broken(
        "doubt-is-a-new-subscription",
        "while nodes are away who may know of a subscription, a new one is only for who asks for it",
        "client/consuming.py",
        "        elif self._wish.begins:\n            self._new_op(Phase.SUBSCRIBING)\n",
        "        else:\n            self._new_op(Phase.SUBSCRIBING)\n",
        *CONSUMING,
    ),
    broken(
        "interrupted-wish-stays",
        "whoever was interrupted wants nothing any more",
        "client/consuming.py",
        "        self._wish = _MessageWish()\n        self.disconnected(now_ms)\n",
        "        self.disconnected(now_ms)\n",
        *CONSUMING,
    ),
    broken(
        "ended-subscription-is-silence",
        "a consumer that is not subscribed says so each time",
        "client/consuming.py",
        "        self.phase = Phase.LOOKING if self.phase is Phase.OVER else self.phase\n\n    def say",
        "\n    def say",
        *CONSUMING,
    ),
    broken(
        "waits-once-and-no-longer",
        "who waits for a message waits as long as was said, also while one is not done",
        "client/blocking_topic.py",
        "            if left_s <= 0:\n                break\n",
        "            break\n",
        "tests/unit/client/test_topics.py",
    ),
    broken(
        "older-consumer-writes-on",
        "in a user's own database the consumer that began last is the one that writes",
        "client/topic_state.py",
        "                self._check_session(connection, topic)\n",
        "",
        *STATE,
    ),
)

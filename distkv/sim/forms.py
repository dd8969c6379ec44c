"""How a command is written, said once: by a verb and its forms a line is read as an action, and written again.

Knows: single words, options, and groups of them.  Does not know which verbs there are (`verbs`), nor what an action
does.

Invariant: what a form writes of an action it reads as the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from distkv.sim.actions import Action
from distkv.sim.words import Words, quoted, time_of, value_words

Fields: TypeAlias = Mapping[str, object]


@attrs.frozen
class WordForm:
    """One field of an action, and the words for it."""

    field: str
    usage: str
    take: Callable[[Words], object]
    """Takes the words of the value. Raises ValueError when there are none, or they cannot be meant."""
    tell: Callable[[Any], Iterable[str]]
    """The words of the value."""
    word: str = ""
    """What stands before them."""
    is_optional: bool = False
    """Whether it may be left out; then the action has what it has by default."""
    is_naming: bool = False
    """Whether it names nodes, which are there then."""
    is_mention: bool = False
    """Whether it mentions nodes that must be named elsewhere, too: a name written wrong would do nothing here."""

    def read(self, words: Words) -> Fields:
        if self.word and not words.takes(self.word):
            if self.is_optional:
                return {}
            raise ValueError(f"{self.word} is missing")
        return {self.field: self.take(words)}

    def write(self, action: Any) -> Iterator[str]:
        value = getattr(action, self.field)
        if not self.is_optional or value != _usual(action, self.field):
            yield from (*([self.word] if self.word else []), *self.tell(value))

    def named(self, action: Any) -> Iterable[str]:
        """The nodes that are there because of it."""
        return _nodes(getattr(action, self.field)) if self.is_naming else ()

    def mentioned(self, action: Any) -> Iterable[str]:
        """Those that must be named elsewhere."""
        return _nodes(getattr(action, self.field)) if self.is_mention else ()


@attrs.frozen
class Pairs(WordForm):
    """All that is left: words such as `name=word`, of which each may be left out."""

    forms: tuple[WordForm, ...] = ()
    makes: Callable[..., Any] | None = None
    """What the field is that is made of them; None: each is a field of the action."""

    def read(self, words: Words) -> Fields:
        given = words.pairs({form.word for form in self.forms})
        found = {form.field: form.take(given[form.word]) for form in self.forms if form.word in given}
        return found if self.makes is None else {self.field: self.makes(**found)}

    def write(self, action: Any) -> Iterator[str]:
        holder = action if self.makes is None else getattr(action, self.field)
        for form in self.forms:
            value = getattr(holder, form.field)
            if value != _usual(holder, form.field):
                yield f"{form.word}={''.join(form.tell(value))}"


@attrs.frozen
class Verb:
    """One verb."""

    name: str
    makes: Callable[..., Action]
    """The kind of action that it is."""
    forms: tuple[WordForm, ...] = ()
    """What follows it."""
    fixed: Fields = attrs.field(factory=dict)
    """What holds of each action with this verb."""
    suits: Callable[[Any], bool] = lambda _: True
    """Which actions of that kind are written with it, among those of which that holds."""
    wrong: Callable[[Any], str] = lambda _: ""
    """What cannot be meant, although each word can."""

    @property
    def usage(self) -> str:
        """It, and what follows it."""
        return " ".join([self.name, *(form.usage for form in self.forms)])

    def read(self, words: Words) -> Action:
        """Takes all that follows. Raises ValueError when it is no such action."""
        found = dict(self.fixed)
        for form in self.forms:
            found |= form.read(words)
        if words:
            raise ValueError(f"{words.take('')} is one word too many")
        action = self.makes(**found)
        if what := self.wrong(action):
            raise ValueError(what)
        return action

    def is_for(self, action: Action) -> bool:
        """Whether an action is written with it."""
        return all(getattr(action, field) == value for field, value in self.fixed.items()) and self.suits(action)


# -- single words -------------------------------------------------------------------------------------------------


def node(field: str = "node", *, usage: str = "NODE", is_naming: bool = True) -> WordForm:
    return WordForm(field, usage, Words.node, _one, is_naming=is_naming)


def mention(field: str) -> WordForm:
    """A node that must be named elsewhere, too."""
    return WordForm(field, "NODE", Words.node, _one, is_mention=True)


def nodes(field: str = "nodes", *ends: str, usage: str = "NODE…", is_naming: bool = True) -> WordForm:
    """One or more, up to one of the words `ends`."""
    return WordForm(field, usage, lambda words: words.nodes(*ends), lambda names: names, is_naming=is_naming)


def text(field: str, what: str, usage: str = "") -> WordForm:
    return WordForm(field, usage or what.split()[-1].upper(), lambda words: words.take(what), quoted)


def path(field: str = "path") -> WordForm:
    return WordForm(field, "PATH", Words.path, lambda value: quoted(str(value)))


def value(field: str = "value") -> WordForm:
    return WordForm(field, "VALUE", Words.value, value_words)


def count(field: str, what: str = "the count", usage: str = "COUNT") -> WordForm:
    return WordForm(field, usage, lambda words: words.integer(what), lambda number: (str(number),))


def number(field: str, what: str) -> WordForm:
    return WordForm(field, "NUMBER", lambda words: words.number(what), lambda found: (repr(found),))


def positive(field: str, what: str, why: str) -> WordForm:
    """A number that is more than 0, or `why` not."""
    return attrs.evolve(number(field, what), take=lambda words: above_0(words.number(what), why))


def chance(field: str, what: str) -> WordForm:
    return WordForm(field, "NUMBER", lambda words: words.chance(what), lambda found: (repr(found),))


def time(field: str) -> WordForm:
    return WordForm(field, "TIME", Words.time_ms, lambda ms: (time_of(ms),))


def span(field: str) -> WordForm:
    return WordForm(field, "TIME..TIME", Words.span_ms, lambda times: (f"{time_of(times[0])}..{time_of(times[1])}",))


def within(field: str = "within_ms") -> WordForm:
    """How long it is waited for, which need not be said."""
    return WordForm(field, "[within TIME]", Words.within_ms, lambda ms: ("within", time_of(ms)))


def flag(word: str, field: str) -> WordForm:
    """A word that is there or not."""
    return WordForm(field, f"[{word}]", lambda words: words.takes(word), lambda is_so: [word] if is_so else [])


def option(word: str, form: WordForm) -> WordForm:
    """The same behind a word; both may be left out."""
    return attrs.evolve(form, usage=f"[{word} {form.usage}]", word=word, is_optional=True)


def after(word: str, form: WordForm) -> WordForm:
    """The same behind a word that must be there."""
    return attrs.evolve(form, usage=f"{word} {form.usage}", word=word)


def pairs(*forms: tuple[str, WordForm], field: str = "", makes: Callable[..., Any] | None = None) -> WordForm:
    """Words such as `loss=0.1`, by the names before the sign."""
    named = tuple(attrs.evolve(form, word=word) for word, form in forms)
    usage = " ".join(f"[{form.word}={form.usage if makes is None else '…'}]" for form in named)
    return Pairs(field, usage, _never, _never, forms=named, makes=makes)


# -- for forms that a verb makes for itself -----------------------------------------------------------------------


def above_0(found: float, why: str) -> float:
    """Raises ValueError when it is not."""
    if found <= 0:
        raise ValueError(why)
    return found


def listed(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """The nodes behind a word, if there are any."""
    found = sorted(names)
    return (word, *found) if found else ()


# -- inside -------------------------------------------------------------------------------------------------------


def _one(word: str) -> tuple[str, ...]:
    return (word,)


def _never(_: object) -> Iterable[str]:
    raise TypeError("pairs are read and written as a whole")


def _usual(action: Any, field: str) -> object:
    """What an action has when nothing is said."""
    (found,) = (one.default for one in attrs.fields(type(action)) if one.name == field)
    return found.factory() if isinstance(found, attrs.Factory) else found  # type: ignore[arg-type]


def _nodes(found: object) -> Iterable[str]:
    if isinstance(found, str):
        return (found,) if found else ()
    return tuple(found) if isinstance(found, Iterable) else ()

"""Completion on the command line: `distkv completion SHELL`, and what its scripts ask each time somebody presses Tab.

Knows: the three shells: how each hands over what was typed, and how it wants to be answered.  Does not know what is
offered: the library knows commands and options, `suggestions` the rest.

A script calls `distkv` with the shell's name in the environment variable `_DISTKV_COMPLETE`. The arguments are, for

    bash    the command line up to the cursor, and the end of it that bash replaces (it cuts words at ':' and '=')
    zsh     the words before the cursor without their quotes; the last is the one that is not finished
    fish    the same, but the last word as it was typed

The answer is a line for each word that is offered. For zsh and fish, these are three fields with tabs between them:
how it goes on, the word, and a hint. For bash, the first line says for all how they go on, and the rest is what bash
puts on the line, with quotes where they are needed. A word goes on `open`, when no space follows, or `closed`;
`file` and `dir` say that the shell shall look for these.

Invariant: what is offered begins with what was typed; nothing is written to stderr.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import asyncclick as click
import attrs

from distkv.cli.session import COMPLETION_VARIABLE, Job

if TYPE_CHECKING:
    from asyncclick.shell_completion import CompletionItem

VARIABLE: Final = COMPLETION_VARIABLE

OPEN: Final = "open"
CLOSED: Final = "closed"
FILE: Final = "file"
DIRECTORY: Final = "dir"
LOOKS: Final = (FILE, DIRECTORY)
"""What the shell shall look for; these are the library's words, too."""

HINT_MAX: Final = 60
"""Characters."""


class Shell(StrEnum):
    """Which shells are served."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@click.command("completion")
@click.argument("shell", type=click.Choice([shell.value for shell in Shell]))
def completion_command(shell: str) -> Job:
    """Print a script for SHELL that completes the words of distkv commands.

    It completes commands, options, and the paths of the node. Put this into the start file of your shell:

    \b
      bash   eval "$(distkv completion bash)"      in ~/.bashrc
      zsh    eval "$(distkv completion zsh)"       in ~/.zshrc, after compinit
      fish   distkv completion fish | source       in ~/.config/fish/config.fish
    """
    return lambda: click.echo(SCRIPTS[Shell(shell)], nl=False)


def asking_shell() -> Shell | None:
    """Which shell's script called this run of `distkv`; None: a person or a program did."""
    name = os.environ.get(VARIABLE)
    return Shell(name) if name in tuple(Shell) else None


async def answer(command: click.Command, shell: Shell, arguments: Sequence[str]) -> str:
    """What to tell the script."""
    line = _bash_line(*arguments[:2]) if shell is Shell.BASH else _words_line(arguments, shell)
    offers = await _offers(command, line)
    if shell is Shell.BASH:
        return _bash_answer(line, offers)
    return "".join(f"{offer.how}\t{offer.word}\t{offer.hint}\n" for offer in offers)


# -- what was typed -----------------------------------------------------------------------------------------------


@attrs.frozen
class Word:
    """One word of a command line."""

    text: str
    """Without quotes."""
    raw: str
    """As it was typed."""
    quote: str = ""
    """The quote that is still open at its end."""


@attrs.frozen
class TypedLine:
    """The words behind `distkv`, up to the cursor."""

    before: list[str]
    last: Word
    """The one that is not finished; it may be empty."""
    replaced: str = ""
    """The end of it, as it was typed, that the shell replaces."""


def _bash_line(text: str = "", replaced: str = "") -> TypedLine:
    _, *words = split_line(text)
    *before, last = words or [Word("", "")]
    return TypedLine([word.text for word in before], last, replaced if last.raw.endswith(replaced) else "")


def _words_line(words: Sequence[str], shell: Shell) -> TypedLine:
    *before, last = words or [""]
    if shell is Shell.FISH:
        last = split_line(last)[-1].text
    return TypedLine(before, Word(last, last))


def split_line(text: str) -> list[Word]:
    """The words of a command line that may end inside a word or a quote; one more, empty, when it ends behind a space.

    Quotes and backslashes mean what they mean in sh. Nothing is expanded.
    """
    words: list[Word] = []
    chars: list[str] = []
    begin, quote, at = 0, "", 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            following = text[at + 1 : at + 2]
            chars.append(following if not quote or following in '"$`\\' else f"\\{following}")
            at += 1
        elif quote:
            if char == quote:
                quote = ""
            else:
                chars.append(char)
        elif char in "'\"":
            quote = char
        elif char.isspace():
            if begin < at:
                words.append(Word("".join(chars), text[begin:at]))
            chars, begin = [], at + 1
        else:
            chars.append(char)
        at += 1
    return [*words, Word("".join(chars), text[begin:], quote)]


# -- what is offered ----------------------------------------------------------------------------------------------


@attrs.frozen
class Offer:
    """One word that may come next, or where the shell shall look for it."""

    how: str
    word: str = ""
    hint: str = ""


async def _offers(command: click.Command, line: TypedLine) -> list[Offer]:
    from asyncclick.shell_completion import ShellComplete

    word = line.last.text
    # The library takes --option=VALUE apart, and offers VALUE alone.
    head = word[: word.index("=") + 1] if word.startswith("--") and "=" in word else ""
    try:
        items = await ShellComplete(command, {}, "distkv", VARIABLE).get_completions(line.before, word)
    except click.ClickException:
        return []
    return [offer for offer in (_offer(item, head) for item in items) if offer.word.startswith(word) or not offer.word]


def _offer(item: CompletionItem, head: str) -> Offer:
    if item.type in LOOKS:
        return Offer(item.type)
    hint = " ".join((item.help or "").split())
    hint = hint if len(hint) <= HINT_MAX else f"{hint[: HINT_MAX - 3]}..."
    return Offer(OPEN if item.is_open else CLOSED, head + item.value, hint)


def _bash_answer(line: TypedLine, offers: Sequence[Offer]) -> str:
    if not offers:
        return ""
    done = len(line.last.text)
    words = [line.replaced + _quoted(offer.word[done:], line.last.quote) for offer in offers if offer.word]
    return "\n".join([offers[0].how, *words, ""])


_BARE: Final = re.compile(r"[^\w.:/=,@%+-]")
_IN_QUOTES: Final = re.compile(r'["$`\\]')


def _quoted(text: str, quote: str) -> str:
    """`text` as it can stand on the line, in quotes or not."""
    if quote == "'":
        return text.replace("'", "'\\''")
    return (_IN_QUOTES if quote else _BARE).sub(r"\\\g<0>", text)


# -- scripts ------------------------------------------------------------------------------------------------------

_BASH: Final = r"""# distkv completion bash
_distkv() {
    # What bash sets always, a function that wraps this one may leave out.
    local how command=${1:-distkv} line=${COMP_LINE:-${COMP_WORDS[*]}} word=${2-${COMP_WORDS[COMP_CWORD]}}
    line=${line:0:${COMP_POINT:-${#line}}}
    mapfile -t COMPREPLY < <(_DISTKV_COMPLETE=bash "${command/#\~/$HOME}" "$line" "$word" 2>/dev/null)
    how=${COMPREPLY[0]-}
    COMPREPLY=("${COMPREPLY[@]:1}")
    case $how in
        closed) compopt +o nospace ;;
        file) compopt +o nospace -o default ;;
        dir) compopt -o dirnames ;;
    esac
}
complete -o nosort -o nospace -F _distkv distkv
"""

_ZSH: Final = r"""#compdef distkv
_distkv() {
    local line
    local -a lines fields hinted closed open
    lines=("${(@f)$(_DISTKV_COMPLETE=zsh ${~words[1]} "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in $lines; do
        fields=("${(@ps:\t:)line}")
        case $fields[1] in
            open) open+=("$fields[2]") ;;
            closed) [[ -n $fields[3] ]] && hinted+=("${fields[2]//:/\\:}:$fields[3]") || closed+=("$fields[2]") ;;
            file) [[ $PREFIX == --*=* ]] && compset -P '*='; _files ;;
            dir) [[ $PREFIX == --*=* ]] && compset -P '*='; _files -/ ;;
        esac
    done
    (( $#hinted )) && _describe -V distkv hinted
    (( $#closed )) && compadd -V distkv -a closed
    (( $#open )) && compadd -V distkv -S '' -a open
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _distkv "$@"
else
    compdef _distkv distkv
fi
"""

_FISH: Final = r"""# distkv completion fish
function __distkv_complete
    set -l words (commandline -opc)
    set words[1] (string replace -r "^~/" ~/ -- $words[1])
    set -l token (commandline -ct)
    for line in (_DISTKV_COMPLETE=fish $words[1] $words[2..-1] "$token" 2>/dev/null)
        set -l fields (string split \t -- $line)
        switch $fields[1]
            case file
                __fish_complete_path "$token"
            case dir
                __fish_complete_directories "$token"
            case '*'
                printf '%s\t%s\n' $fields[2] $fields[3]
        end
    end
end
complete -c distkv --no-files --keep-order --arguments '(__distkv_complete)'
"""

SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}

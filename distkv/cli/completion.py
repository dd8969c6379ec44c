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

from distkv.cli.session import Job

if TYPE_CHECKING:
    from asyncclick.shell_completion import CompletionItem

VARIABLE: Final = "_DISTKV_COMPLETE"


class Shell(StrEnum):
    """Which shells are served."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@click.command("completion")
@click.argument("shell", type=click.Choice([shell.value for shell in Shell]))
def completion_command(shell: str) -> Job:
    """Print a script that lets SHELL complete the words of this command.

    It completes commands, options, and paths: it asks the node which there are. Put this where your shell starts:

    \b
      bash   eval "$(distkv completion bash)"      in ~/.bashrc
      zsh    eval "$(distkv completion zsh)"       in ~/.zshrc, behind compinit
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
    found = await _offered(command, line)
    if shell is Shell.BASH:
        return _bash_answer(line, found)
    return "".join(f"{_going_on(item)}\t{item.value}\t{_hint(item)}\n" for item in found)


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
class Line:
    """The words behind `distkv`, up to the cursor."""

    before: list[str]
    last: Word
    """The one that is not finished; it may be empty."""
    replaced: str = ""
    """The end of it, as it was typed, that the shell replaces."""


def _bash_line(text: str = "", replaced: str = "") -> Line:
    _, *words = split_line(text)
    *before, last = words or [Word("", "")]
    return Line([word.text for word in before], last, replaced if last.raw.endswith(replaced) else "")


def _words_line(words: Sequence[str], shell: Shell) -> Line:
    *before, last = words or [""]
    if shell is Shell.FISH:
        last = split_line(last)[-1].text
    return Line(before, Word(last, last))


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


async def _offered(command: click.Command, line: Line) -> list[CompletionItem]:
    from asyncclick.shell_completion import CompletionItem, ShellComplete

    word = line.last.text
    # The library takes --option=VALUE apart, and offers VALUE alone.
    head = word[: word.index("=") + 1] if word.startswith("--") and "=" in word else ""
    try:
        found = await ShellComplete(command, {}, "distkv", VARIABLE).get_completions(line.before, word)
    except click.ClickException:
        return []
    return [
        CompletionItem(head + item.value, item.type, item.help, is_open=item.is_open)
        for item in found
        if item.type in (FILE, DIRECTORY) or (head + item.value).startswith(word)
    ]


OPEN: Final = "open"
CLOSED: Final = "closed"
FILE: Final = "file"
DIRECTORY: Final = "dir"


def _going_on(item: CompletionItem) -> str:
    if item.type in (FILE, DIRECTORY):
        return item.type
    return OPEN if item.is_open else CLOSED


HINT_MAX: Final = 60


def _hint(item: CompletionItem) -> str:
    text = " ".join((item.help or "").split())
    return text if len(text) <= HINT_MAX else f"{text[: HINT_MAX - 3]}..."


def _bash_answer(line: Line, items: Sequence[CompletionItem]) -> str:
    if not items:
        return ""
    word = line.last
    offered = [line.replaced + _quoted(item.value[len(word.text) :], word) for item in items]
    return "\n".join([_going_on(items[0]), *offered, ""])


_BARE: Final = re.compile(r"[^\w.:/=,@%+-]")
_IN_QUOTES: Final = re.compile(r'["$`\\]')


def _quoted(text: str, word: Word) -> str:
    """`text` as it can stand behind `word` on the line."""
    if word.quote == "'":
        return text.replace("'", "'\\''")
    return (_IN_QUOTES if word.quote else _BARE).sub(r"\\\g<0>", text)


# -- scripts ------------------------------------------------------------------------------------------------------

_BASH: Final = r"""# distkv completion bash
_distkv() {
    mapfile -t COMPREPLY < <(_DISTKV_COMPLETE=bash "$1" "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    local how=${COMPREPLY[0]-}
    COMPREPLY=("${COMPREPLY[@]:1}")
    case $how in
        closed) compopt +o nospace ;;
        file) COMPREPLY=(); compopt +o nospace -o default ;;
        dir) COMPREPLY=(); compopt -o dirnames ;;
    esac
}
complete -o nosort -o nospace -F _distkv distkv
"""

_ZSH: Final = r"""#compdef distkv
_distkv() {
    local line
    local -a lines fields hinted closed open
    lines=("${(@f)$(_DISTKV_COMPLETE=zsh $words[1] "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
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

"""What a change reaches: the modules that were changed, and the files of tests in the order of their nearness to them.

Knows: what git says of the working tree, and what imports what, read from the sources' import lines.  Does not import
what it reads, nor how long a test takes (`quick`).

Invariant: a file of tests that reaches a changed module by imports, or has the folder of its package, is in the list;
the nearest are first.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from testing.steps import ROOT

IMPORT: Final = re.compile(r"^[ \t]*(?:from +([\w.]+) +import +(\([^)]*\)|.+)|import +([\w., ]+))", re.MULTILINE)
FOLDERS: Final = ("unit", "tidy", "scenarios", "node", "typed", "property")
"""Those whose tests need only Python, the quickest first."""
MIRROR_STEPS: Final = 2
"""So near to the modules of a package are the tests in the folder of its name, at least."""


def changed_files() -> list[str] | None:
    """What differs from the last commit on main, and files that git does not know yet; None without git or main.

    On another branch: from the commit at which it left main.
    """
    base = _git("merge-base", "main", "HEAD")
    if base is None:
        return None
    differs = _git("diff", "--name-only", "--diff-filter=d", base.strip()) or ""
    new = _git("ls-files", "--others", "--exclude-standard") or ""
    return sorted({*differs.splitlines(), *new.splitlines()})


def sources(root: Path = ROOT) -> dict[str, str]:
    """Module -> its source, of the product and of the tests."""
    files = [path for folder in ("distkv", "tests") for path in (root / folder).rglob("*.py")]
    return {_module(path.relative_to(root)): path.read_text("utf-8") for path in files}


def module_of(file: str) -> str | None:
    """The name of a file's module, or None when it is none that tests import."""
    path = Path(file)
    return _module(path) if path.suffix == ".py" and path.parts[0] in ("distkv", "tests") else None


def nearest(changed: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """The modules of tests that reach changed modules by imports; those in fewer steps first, then by folder."""
    importers = _importers(texts)
    steps = dict.fromkeys((name for name in changed if name in texts), 0)
    rest = list(steps)
    for name in rest:  # grows meanwhile: breadth first
        for other in importers[name]:
            if other not in steps:
                steps[other] = steps[name] + 1
                rest.append(other)
    # The commands are loaded by their names, not by imports: for all packages the folder of their name is near, too.
    packages = {name.split(".")[1] for name in changed if name.startswith("distkv.")}
    for name in texts:
        parts = name.split(".")
        if parts[:2] == ["tests", "unit"] and parts[2] in packages:
            steps[name] = min(steps.get(name, MIRROR_STEPS), MIRROR_STEPS)
    found = [name for name in steps if _is_test(name)]
    return sorted(found, key=lambda name: (steps[name], FOLDERS.index(name.split(".")[1]), name))


def _is_test(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "tests" and parts[-1].startswith("test_") and parts[1] in FOLDERS


def _importers(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Module -> the modules that import it."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        for other in dict.fromkeys(_imports(text, texts)):
            found[other].append(name)
    return found


def _imports(text: str, known: Mapping[str, str]) -> Iterator[str]:
    """The modules that a source imports: of `from a import b` a.b where that is a module, else a."""
    for base, names, modules in IMPORT.findall(text):
        for word in re.findall(r"[\w.]+", re.sub(r" as +\w+|#.*", "", names or modules)):
            whole = f"{base}.{word}" if base else word
            yield whole if whole in known else base


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None

"""How Sphinx makes the pages: `make docs`.

Knows: the settings of Sphinx.  Does not know what the pages say; what is generated of them is made by `reference`.

Invariant: a build needs no network, and neither do the pages that it makes.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from distkv import __version__  # noqa: E402  # the path above makes it found without an install

project = "distkv"
author = "the distkv authors"
copyright = author
version = release = __version__

extensions = ["reference"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` makes errors of warnings
smartquotes = False  # -- and quotes stay what one types
highlight_language = "none"

html_theme = "furo"
html_title = f"distkv {version}"
html_show_copyright = False
html_copy_source = False

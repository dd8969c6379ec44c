"""Lets the tests import `bench`, which is no part of the product: it lies in packaging/."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "packaging"))

"""One browser for all tests of this folder: to start it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.browser import Browser, open_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found

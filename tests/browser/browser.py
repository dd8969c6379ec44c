"""A real headless chromium, driven through chromedriver's WebDriver interface.

Knows: the few requests of the protocol (W3C WebDriver) that our tests need, and how both programs are started and
ended.  Does not know any page.

Invariant: when `open_browser` is left, chromedriver, chromium and all their children are dead, by their process group,
however the test ended.

Of selenium these are the hundredth part; its wheel has 12 MB, brings six more packages, and asks for a newer trio than
we do.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

START_S: Final = 30.0
ANSWER_S: Final = 30.0
WAIT_S: Final = 10.0
PAUSE_S: Final = 0.02

ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""How the protocol marks an element, by its standard."""
KEYS: Final[Mapping[str, str]] = {
    "escape": "\ue00c", "down": "\ue015", "up": "\ue013", "left": "\ue012", "right": "\ue014",
    "home": "\ue011", "end": "\ue010", "enter": "\ue007", "tab": "\ue004",
}  # fmt: skip

ARGUMENTS: Final = (
    "--headless=new", "--window-size=1400,900", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
"""Chromium shall draw pages and call nobody; root may run it without its sandbox only, see `open_browser`."""

Found = TypeVar("Found")


class BrowserError(Exception):
    """The browser refused, or did not answer."""


@attrs.frozen
class Browser:
    """One window."""

    _port: int
    _session: str

    # -- pages

    def open(self, file: Path) -> None:
        """Show a file, and return when it is loaded."""
        self._ask("POST", "/url", {"url": file.resolve().as_uri()})

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns; `arguments` are its own."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What stands in the element that one sees."""
        return str(self._ask("GET", f"/element/{self._find(selector)}/text"))

    def count(self, selector: str) -> int:
        return len(self._ask("POST", "/elements", {"using": "css selector", "value": selector}))

    def click(self, selector: str) -> None:
        self._ask("POST", f"/element/{self._find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        self._ask("POST", f"/element/{self._find(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus; by their names in `KEYS`, others as they are."""
        typed = [KEYS.get(key, key) for key in keys]
        actions = [{"type": way, "value": key} for key in typed for way in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def hover(self, selector: str) -> None:
        """Move the pointer over an element."""
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self._find(selector)}}
        self._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def wait(self, condition: Callable[[], Found], what: str) -> Found:
        """What `condition` answers as soon as that is true.

        Raises:
            TimeoutError: it was not within some seconds.
        """
        deadline = time.monotonic() + WAIT_S
        pause = threading.Event()  # nobody sets it
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WAIT_S:g} s: {what}; last answer: {found!r}")
            pause.wait(PAUSE_S)
        return found

    def errors(self) -> list[str]:
        """What the page complained about on the console since the last time."""
        log = self._ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def prefer_dark(self, *, dark: bool, on_paper: bool = False) -> None:
        """What the user's system prefers; `on_paper`: the page is as it would be printed."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = {"media": "print" if on_paper else "", "features": [feature]}
        self._ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": media})

    def narrow(self, width: int | None) -> None:
        """Show pages as wide as this, which may be narrower than any window; None: as wide as the window."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        command = "clearDeviceMetricsOverride" if width is None else "setDeviceMetricsOverride"
        params = {} if width is None else size
        self._ask("POST", "/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": params})

    def resize(self, width: int, height: int) -> None:
        """The window."""
        self._ask("POST", "/window/rect", {"width": width, "height": height})

    def screenshot(self) -> bytes:
        """What one sees, as a PNG."""
        return base64.b64decode(self._ask("GET", "/screenshot"))

    # -- inside

    def _find(self, selector: str) -> str:
        return str(self._ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT])

    def _ask(self, method: str, path: str, fields: object = None) -> Any:
        return ask(self._port, method, f"/session/{self._session}{path}", fields)


def ask(port: int, method: str, path: str, fields: object = None) -> Any:
    """One request to chromedriver.

    Raises:
        BrowserError: it refused.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        body = None if fields is None else json.dumps(fields)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
    finally:
        connection.close()
    if isinstance(value, dict) and "error" in value:
        raise BrowserError(f"{method} {path}: {value['error']}: {value.get('message', '').splitlines()[:1]}")
    return value


@contextmanager
def open_browser(directory: Path) -> Iterator[Browser]:
    """A browser that keeps all that it writes in `directory`.

    Raises:
        BrowserError: chromedriver does not start.
    """
    environment = {**os.environ, "HOME": str(directory), "XDG_CONFIG_HOME": str(directory), "TMPDIR": str(directory)}
    with (directory / "chromedriver.log").open("wb") as log:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE, stderr=log, env=environment, cwd=directory, start_new_session=True,
        )  # fmt: skip
    try:
        port = _port(driver)
        arguments = [*ARGUMENTS, f"--user-data-dir={directory / 'profile'}", *_sandbox()]
        capabilities = {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = ask(port, "POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        yield Browser(port, session)
        ask(port, "DELETE", f"/session/{session}")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        if driver.stdout is not None:
            driver.stdout.close()


def _sandbox() -> list[str]:
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def _port(driver: subprocess.Popen[bytes]) -> int:
    """Where it listens: it says so, and ends when it cannot."""
    assert driver.stdout is not None
    timer = threading.Timer(START_S, driver.kill)
    timer.start()
    try:
        for line in driver.stdout:
            found = re.search(rb"started successfully on port (\d+)", line)
            if found:
                return int(found[1])
    finally:
        timer.cancel()
    raise BrowserError(f"chromedriver does not start; it ended with {driver.wait()}")

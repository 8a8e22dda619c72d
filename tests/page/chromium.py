"""A real Chromium without a window, driven by the DevTools protocol: tabs of any size, what they ask for and complain of."""

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--no-first-run", "--disable-gpu", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync"),
    *("--disable-dev-shm-usage", "--font-render-hinting=none", "--force-color-profile=srgb"),
)
WITHIN = 120.0  # seconds for the browser to start, and for what a page is waited for

CUT = """[...document.querySelectorAll("body *")].filter((one) => {
  const own = [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (!own || !one.checkVisibility() || one.closest("caption, .scroll, datalist")) return false;
  const box = one.getBoundingClientRect(), block = getComputedStyle(one).display !== "inline";
  return (block && one.scrollWidth > one.clientWidth + 1) || box.left < 0 || box.right > innerWidth + 1;
}).map((one) => one.outerHTML.slice(0, 120))"""  # text beyond the edges of its box, or of the window
TILE = """((name) => {{
  const one = [...document.querySelectorAll("#tiles .tile")].find((tile) => tile.firstChild.textContent === name);
  return [...one.querySelectorAll("p")].map((part) => part.textContent);
}})("{}")"""  # value and note of a tile


@contextmanager
def chromium() -> Iterator[str]:
    """A browser's DevTools address; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine; install it: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="streamjobs-chromium-", ignore_cleanup_errors=True) as folder:
        words = [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        browser = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            assert browser.stderr is not None
            found = next((line for line in browser.stderr if "DevTools listening on " in line), "")
            yield found.partition("listening on ")[2].strip()
        finally:
            browser.terminate()
            try:
                browser.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.communicate()


class Tab:
    """A page; `errors` has what it complained of, `requests` every address it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.errors.append(str(told["params"]["exceptionDetails"]))
            elif told["method"] == "Runtime.consoleAPICalled" and told["params"]["type"] in ("error", "assert"):
                self.errors.append(str(told["params"]["args"]))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.errors.append(str(told["params"]["entry"]))
            elif told["method"] == "Network.requestWillBeSent":
                self.requests.append(told["params"]["request"]["url"])

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the protocol."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        place = {"sessionId": self._session} if self._session else {}
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params, **place}))
        told = await asyncio.wait_for(self._answers[number], WITHIN)
        if "error" in told:
            raise AssertionError(f"{method}: {told['error']}")
        return told["result"]  # type: ignore[no-any-return]

    async def open(self, url: str, *, width: int, height: int = 1000, dark: bool = False, before: str = "") -> None:
        """before: a script that runs before those of the page."""
        if self._session is None:
            target = (await self.do("Target.createTarget", url="about:blank"))["targetId"]
            self._session = (await self.do("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await self.do(f"{domain}.enable")
            if before:
                await self.do("Page.addScriptToEvaluateOnNewDocument", source=before)
        await self.look(width=width, height=height, dark=dark)
        await self.do("Page.navigate", url=url)

    async def look(self, *, width: int, height: int = 1000, dark: bool = False) -> None:
        """Another size of the window, dark or light."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.do("Emulation.setDeviceMetricsOverride", **size)
        await self.do("Emulation.setEmulatedMedia", features=features)

    async def ask(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        made = await self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in made:
            raise AssertionError(f"{script}: {made['exceptionDetails']}")
        return made["result"].get("value")

    async def until(self, script: str, wanted: Callable[[Any], bool] = bool) -> Any:
        """Wait for the value of an expression."""
        value = None
        for _ in range(int(10 * WITHIN)):
            value = await self.ask(script)
            if wanted(value):
                return value
            await asyncio.sleep(0.1)
        raise AssertionError(f"{script}: still {value!r} after {WITHIN:.0f} s")

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37}[key]
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        """whole: all of the page, however long."""
        made = await self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))

    async def close(self) -> None:
        self._reading.cancel()
        await self._socket.close()


class Browser:
    """`async with Browser(address) as browser: tab = await browser.tab()`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> "Browser":
        self._client = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def tab(self) -> Tab:
        return Tab(await self._client.ws_connect(self._address, max_msg_size=0))

"""The live page in a real Chromium, beside a worker at work: one worker and one browser for all tests of this file."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.chromium import CUT, TILE, Browser, Tab, chromium
from tests.page.job import BAD, DAMAGED, HOSTILE, Demo, demo_worker

LOOKS = [(400, False), (400, True), (1600, False), (1600, True)]  # width in pixels, dark
BEFORE = """
window.cut = new Set(), window.drawn = new Set();
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
  const size = this.measureText(text), turned = this.getTransform(), { width, height } = this.canvas;
  const at = (dx, dy) => turned.transformPoint(new DOMPoint(x + dx, y + dy));
  const first = at(-size.actualBoundingBoxLeft, -size.actualBoundingBoxAscent);
  const last = at(size.actualBoundingBoxRight, size.actualBoundingBoxDescent);
  if (first.x < -1 || first.y < -1 || last.x > width + 1 || last.y > height + 1) window.cut.add(text);
  window.drawn.add(text);
  return fill.call(this, text, x, y, ...more);
};
"""  # remembers the labels of canvases, and those drawn beyond their edges
INK = """[...document.querySelectorAll("canvas")].map((one) => {
  const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height), colors = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) colors.add(data.slice(at, at + 3).join());
  return colors.size;
})"""
FOCUS = """(() => {
  const one = document.activeElement;
  return one === document.body ? "" : one.id || one.textContent.trim() || one.tagName;
})()"""
FACTS = """Object.fromEntries([...document.querySelectorAll("#asked .facts div")].map(
  (one) => [...one.children].map((part) => part.textContent)))"""
LINE = """[...document.querySelectorAll("#charts .legend span")].find(
  (one) => one.textContent === "person-04")?.nextSibling.textContent"""


class Page:
    """A tab, driven from tests that are not asynchronous."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tab: Tab, demo: Demo) -> None:
        self.loop, self.tab, self.demo = loop, tab, demo

    def ask(self, script: str) -> Any:
        return self.loop.run_until_complete(self.tab.ask(script))

    def until(self, script: str) -> Any:
        return self.loop.run_until_complete(self.tab.until(script))

    def look(self, width: int, dark: bool) -> None:
        """At another size; waits until the next event has been drawn."""
        self.loop.run_until_complete(self.tab.look(width=width, dark=dark))
        self.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
        self.ask("window.cut.clear()")
        now = self.ask("document.getElementById('about').textContent")
        self.until(f"document.getElementById('about').textContent !== {json.dumps(now)}")

    def press(self, key: str) -> None:
        self.loop.run_until_complete(self.tab.press(key))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    loop = asyncio.new_event_loop()
    with chromium() as address, demo_worker(tmp_path_factory.mktemp("page")) as demo:

        async def opened() -> Tab:
            tab = await browser.tab()
            await tab.open(demo.url, width=1600, before=BEFORE)
            await tab.until("document.querySelectorAll('.person').length >= 7 && !!document.querySelector('#letters tbody')")
            return tab

        browser = loop.run_until_complete(Browser(address).__aenter__())
        try:
            tab = loop.run_until_complete(opened())
            yield Page(loop, tab, demo)
            loop.run_until_complete(tab.close())
        finally:
            loop.run_until_complete(browser.__aexit__())
    loop.close()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_charts_have_ink_and_every_label_is_whole(page: Page, width: int, dark: bool) -> None:
    page.look(width, dark)
    assert page.ask("innerWidth") == width == page.ask("document.documentElement.scrollWidth")
    assert page.ask(CUT) == []
    drawn = page.ask("[...window.drawn]")
    assert page.ask("[...window.cut]") == [] and "0" in drawn and sum(text.count(":") == 2 for text in drawn) >= 2
    inks = page.ask(INK)
    assert len(inks) == 4 + page.ask("document.querySelectorAll('.person').length")
    assert min(inks[:4]) >= 3  # grid, and a line of its own color; anti-aliasing adds more
    assert min(inks[4:]) >= 3  # classes


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(page: Page, dark: bool) -> None:
    """4.5 to 1, as WCAG asks of small text."""
    page.look(1600, dark)
    wanted = ("--text", "--muted", "--good", "--warn", "--bad", "--c1")
    names = ["--panel", "--back", *wanted]
    colors = page.ask(
        f"{json.dumps(names)}.map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
    )
    bright = dict(zip(names, map(_luminance, colors), strict=True))
    for name in wanted:
        for behind in ("--panel", "--back"):
            high, low = sorted((bright[name], bright[behind]), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{name} on {behind}"


def _luminance(color: str) -> float:
    digits = color.strip().lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    page.look(1600, False)
    reached: list[str] = []
    page.ask("document.getElementById('key').focus()")
    while len(reached) < 150 and (not reached or reached[-1] not in ("", "key")):
        page.press("Tab")
        reached.append(page.ask(FOCUS))
    assert {"Show", "2 min", "chart-throughput", "chart-lag", "person-02", "confusion", "alarms", "letters"} <= set(reached)
    page.ask("document.getElementById('chart-error').focus()")
    now = page.ask("document.getElementById('chart-error').getAttribute('aria-label')")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    assert ", now:" in now and ", now:" not in page.ask("document.getElementById('chart-error').getAttribute('aria-label')")


def test_whatever_takes_focus_or_shows_a_picture_has_a_name(page: Page) -> None:
    tree = page.loop.run_until_complete(page.tab.do("Accessibility.getFullAXTree"))["nodes"]
    shown = [node for node in tree if not node.get("ignored")]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in shown if "role" in node}
    focusable = [
        node
        for node in shown
        if any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", ()))
        and node["role"]["value"] != "RootWebArea"
    ]
    assert len(focusable) > 20
    assert [node["role"]["value"] for node in focusable if not node.get("name", {}).get("value", "").strip()] == []
    images = [name for role, name in named if role in ("img", "image")]
    assert len(images) >= 11 and all(images) and any(name.startswith("LS error") for name in images)
    assert {"main", "banner", "contentinfo"} <= {role for role, _ in named}


def test_hostile_keys_are_text(page: Page) -> None:
    assert page.ask("document.title") == "demo · streamjobs"
    buttons = page.ask("[...document.querySelectorAll('.person button')].map((one) => one.textContent)")
    assert set(HOSTILE) <= set(buttons)
    assert page.ask("document.querySelectorAll('script').length") == 2
    assert page.ask("[...document.querySelectorAll('img')].every((one) => one.src.endsWith('/page/icon.svg'))")
    assert page.ask("document.querySelectorAll('b, script').length - document.querySelectorAll('.legend b').length") == 2
    letters = page.ask("[...document.querySelectorAll('#letters tbody tr')].map((one) => one.cells[1].textContent)")
    assert letters == [HOSTILE[0]] * len(BAD)


def test_a_short_key_of_a_dead_letter_stands_in_one_line_on_a_phone(page: Page) -> None:
    page.look(390, dark=False)
    lines = """(() => {
      const row = document.querySelector('#letters tbody tr').cloneNode(true), all = document.createRange();
      row.cells[1].textContent = 'd01';
      document.querySelectorAll('#letters tbody tr').forEach((one) => { one.hidden = true; });
      document.querySelector('#letters tbody').append(row);
      all.selectNodeContents(row.cells[1]);
      const found = all.getClientRects().length;
      row.remove();
      document.querySelectorAll('#letters tbody tr').forEach((one) => { one.hidden = false; });
      return found;
    })()"""
    assert page.ask(lines) == 1
    page.look(1440, dark=False)


def test_dead_letters_come_with_their_reason_and_alarms_with_what_changed(page: Page) -> None:
    reasons = page.ask("[...document.querySelectorAll('#letters tbody tr')].map((one) => one.cells[2].textContent)")
    assert any(text.startswith("malformed, partition") for text in reasons)
    assert any("got a text" in text for text in reasons)
    alarms = page.ask("[...document.querySelectorAll('#alarms tbody tr')].map((one) => one.cells[2].textContent)")
    assert alarms and all("glr_chart" in text and "→" in text for text in alarms), alarms
    assert any(" sd (" in text for text in alarms), "the columns that moved, before and after"


def test_a_chosen_key_shows_its_state_and_its_line(page: Page) -> None:
    page.look(1600, False)
    page.ask("[...document.querySelectorAll('.person button')].find((one) => one.textContent === 'person-04').click()")
    page.until("document.querySelectorAll('#asked .facts dd').length > 5")
    facts = page.ask(FACTS)
    rows = page.ask("document.querySelector('.person.chosen canvas').getAttribute('aria-label')")
    assert facts["Rows"].split()[0] == rows.partition(": ")[2].split()[0]  # of the state, and of the strip
    assert facts["Last applied"].startswith("wrist[1] ")
    assert page.until(LINE)
    page.ask("document.getElementById('close').click()")
    assert page.ask("document.getElementById('asked').hidden")


def test_nothing_was_complained_of_and_nothing_asked_for_elsewhere(page: Page) -> None:
    assert page.tab.errors == []
    assert len(page.tab.requests) > 8
    assert [url for url in page.tab.requests if not url.startswith(page.demo.url + "/")] == []


def test_figures_of_rows_that_came_long_ago_say_so_and_are_no_figures_of_now(page: Page) -> None:
    old = page.until(f"(([value, note]) => value === '–' && note)({TILE.format('LS error')})")
    assert re.fullmatch(r"[\d.e-]+, [\d.]+ (s|min) ago", old)
    assert page.ask(TILE.format("Event delay"))[0] == "–"
    assert "from event to Kafka" in page.ask("[...document.querySelectorAll('#charts h2')].map((one) => one.textContent)")[1]
    assert page.ask(TILE.format("Lag"))[0] == "0"  # the broker answers: this one is of now


def test_a_key_that_is_set_aside_is_reported_with_the_command_that_names_it(page: Page) -> None:
    trouble = "document.getElementById('trouble')"
    assert not page.ask(f"{trouble}.checkVisibility()")
    page.demo.send(DAMAGED)
    told = page.until(f"{trouble}.checkVisibility() && {trouble}.textContent")
    assert told.startswith("1 key is set aside: the state cannot be read") and "dlq list JOB --reason state" in told
    page.look(400, False)
    assert page.ask(CUT) == [] and page.ask("document.documentElement.scrollWidth") == 400
    letters = page.ask("[...document.querySelectorAll('#letters tbody tr')].map((one) => one.textContent)")
    assert any("damaged" in text and "state, partition" in text for text in letters), letters
    page.look(1600, False)


def test_a_worker_that_has_ended_is_reported(page: Page) -> None:
    page.demo.process.terminate()
    page.until("document.getElementById('trouble').textContent.includes('connects again by itself')")
    assert page.ask("document.querySelectorAll('.person').length") >= 7  # its last figures stay

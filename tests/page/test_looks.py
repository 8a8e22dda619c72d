"""The page of 200 machines of which 7 are in alarm, and of people with 18 activities, in a real Chromium."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.chromium import CUT, TILE, Browser, Tab, chromium
from tests.page.fleet import CLASSES, FLEET, LABELLED, ROOMS, Fleet, activity_rows, fleet, machine_rows, room_rows

pytestmark = pytest.mark.slow
LOUD = range(20, 160, 20)
TENS = range(-40, 30, 10)
LOOKS = [(390, False), (390, True), (1440, False), (1440, True)]
TITLES = """[...document.querySelectorAll("section.panel")].filter((one) => one.checkVisibility()).map(
  (one) => one.querySelector("h2").firstChild.textContent)"""
IN_ALARM = """[...document.querySelectorAll(".person")].map((one) => [one.querySelector("button").textContent,
  one.querySelector(".open").checkVisibility()])"""
SWATCHES = """[...document.querySelectorAll("#classes i")].map((one) => {
  const look = getComputedStyle(one);
  return look.backgroundImage + look.backgroundColor;
})"""
FAN = """[...document.querySelectorAll("#asked-forecasts canvas")].map((one) => {
  const pen = one.getContext("2d"), x = one.width - 34 - 8, counts = new Map();
  for (let y = 10; y < one.height - 40; y += 1) {
    const alpha = pen.getImageData(x, y, 1, 1).data[3];
    counts.set(alpha, (counts.get(alpha) ?? 0) + 1);
  }
  return [...counts].filter(([, many]) => many > 1).map(([alpha]) => alpha);
})"""
LABELS = """[...document.querySelectorAll("#asked-forecasts canvas")].map(
  (one) => [...(window.drawn.get(one) ?? [])].filter((text) => !text.includes(":")).length)"""
DRAWN = """
window.drawn = new Map();
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
  window.drawn.set(this.canvas, (window.drawn.get(this.canvas) ?? new Set()).add(text));
  return fill.call(this, text, ...more);
};
"""  # remembers the texts of each canvas
DOTS = """(async () => {
  const { Charts } = await import(document.querySelector("script[type=module]").src.replace("page.js", "charts.js"));
  const place = document.body.appendChild(document.createElement("div"));
  const time = [0, 1, 2, 3, 4, 5].map((at) => 1e9 + 30 * at);
  const pixels = (values) => {
    const charts = new Charts(place), one = charts.charts[1];
    charts.draw({ time, delay_p50: values }, null);
    return new Promise((done) => setTimeout(() => {
      const box = one.plot.bbox, canvas = one.plot.ctx.canvas;
      const [r, g, b] = getComputedStyle(one.legend.querySelector("i")).backgroundColor.match(/\\d+/g).map(Number);
      const all = one.plot.ctx.getImageData(box.left, box.top, box.width, box.height).data;
      let count = 0;
      for (let at = 0; at < all.length; at += 4) count += all[at] === r && all[at + 1] === g && all[at + 2] === b;
      done(count);
    }, 50));
  };
  const found = [await pixels([null, 5, null, null, null, null]), await pixels([null, null, null, null, null, null])];
  place.remove();
  return found;
})()"""  # pixels in the color of a series with one value, and with none
BELOW = """(() => {
  const box = document.getElementById("alarms"), end = box.getBoundingClientRect().bottom;
  return [...box.querySelectorAll("tbody tr")].filter((one) => one.getBoundingClientRect().bottom > end + 1).length;
})()"""
COVERED = """(() => {
  const box = document.getElementById("confusion");
  box.scrollIntoView({ block: "center" });
  box.scrollLeft = 300;
  const names = [...box.querySelectorAll("tbody th")].filter((one) => {
    const { left, top, height } = one.getBoundingClientRect();
    return !one.contains(document.elementFromPoint(left + 5, top + height / 2));
  }).map((one) => one.textContent);
  box.scrollLeft = 0;
  return names;
})()"""
WRAPPED = """(() => {
  const cells = [...document.querySelectorAll(".confusion tbody td")], html = cells.map((one) => one.innerHTML);
  cells.forEach((one) => { one.textContent = "12,345,678"; });  // more than these rows give
  const high = cells.filter((one) => one.offsetHeight > 34).length;
  cells.forEach((one, at) => { one.innerHTML = html[at]; });
  return high;
})()"""

LINES_OF_IN_ALARM = """(() => {
  const one = document.querySelector(".person.alarm"), button = one.querySelector("button"), name = button.textContent;
  button.textContent = "machine-0003-in-the-northern-hall";
  const lines = one.querySelector(".open").getClientRects().length;
  button.textContent = name;
  return lines;
})()"""


class Viewer:
    """A tab, driven from tests that are not asynchronous."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tab: Tab, made: Fleet) -> None:
        self.loop, self.tab, self.made = loop, tab, made

    def ask(self, script: str) -> Any:
        return self.loop.run_until_complete(self.tab.ask(script))

    def until(self, script: str) -> Any:
        return self.loop.run_until_complete(self.tab.until(script))

    def look(self, width: int, dark: bool) -> None:
        self.loop.run_until_complete(self.tab.look(width=width, dark=dark))
        self.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")


@pytest.fixture(scope="module")
def browser() -> Iterator[tuple[asyncio.AbstractEventLoop, Browser]]:
    loop = asyncio.new_event_loop()
    with chromium() as address:
        made = loop.run_until_complete(Browser(address).__aenter__())
        yield loop, made
        loop.run_until_complete(made.__aexit__())
    loop.close()


def _viewer(browser: Any, made: Fleet, url: str, wanted: str) -> Viewer:
    loop, program = browser
    tab = loop.run_until_complete(program.tab())
    loop.run_until_complete(tab.open(url, width=1440, before=DRAWN))
    viewer = Viewer(loop, tab, made)
    viewer.until(wanted)
    return viewer


@pytest.fixture(scope="module")
def machines(browser: Any) -> Iterator[Viewer]:
    with fleet(FLEET) as (made, url):
        made.feed(machine_rows(0, 320))
        made.feed(machine_rows(320, 340, moved=LOUD))
        viewer = _viewer(browser, made, url, "document.querySelectorAll('.person.alarm').length === 7")
        yield viewer
        viewer.loop.run_until_complete(viewer.tab.close())


@pytest.fixture(scope="module")
def people(browser: Any) -> Iterator[Viewer]:
    with fleet(LABELLED) as (made, url):
        made.feed(activity_rows(0, 900))
        viewer = _viewer(browser, made, url, "document.querySelectorAll('.confusion tbody tr').length === 18")
        yield viewer
        viewer.loop.run_until_complete(viewer.tab.close())


@pytest.fixture(scope="module")
def rooms(browser: Any) -> Iterator[Viewer]:
    with fleet(ROOMS) as (made, url):
        made.feed(room_rows(900))
        made.store()  # compiles what reads a state, which a page does not wait for
        viewer = _viewer(browser, made, url, "!!document.querySelector('.person')")
        viewer.ask("document.querySelector('.person button').click()")
        viewer.until("document.querySelectorAll('#asked-forecasts canvas').length === 2")
        yield viewer
        viewer.loop.run_until_complete(viewer.tab.close())


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_a_key_is_seen_with_its_forecasts_and_their_intervals(rooms: Viewer, width: int, dark: bool) -> None:
    rooms.look(width, dark)
    assert rooms.ask("document.documentElement.scrollWidth") == width and rooms.ask(CUT) == []
    told = rooms.ask("[...document.querySelectorAll('#asked-forecasts .chart')].map((one) => one.ariaLabel)")
    assert [one.partition(":")[0] for one in told] == ["temp", "load"]
    assert all(re.search(r"forecast 24 rows ahead [\d.]+, 80 % inside [\d.]+ to [\d.]+, 95 % inside ", one) for one in told)
    assert min(rooms.ask(LABELS)) >= 2, "two numbers of an axis at least, for its scale"
    fan = rooms.ask(FAN)
    assert all(51 in one for one in fan) and {0, 91} <= {*fan[0], *fan[1]}, "one interval, nothing, and both together"
    assert rooms.tab.errors == []


@pytest.mark.parametrize("rows", [3, 300])
def test_rows_at_any_intervals_are_counted_from_now_on_the_axis_of_forecasts(browser: Any, rows: int) -> None:
    with fleet(ROOMS | {"forecast": {"ahead": [1, 24] if rows > 3 else [1]}}) as (made, url):
        made.feed(room_rows(rows))
        made.store()
        viewer = _viewer(browser, made, url, "!!document.querySelector('.person')")
        viewer.ask("document.querySelector('.person button').click()")
        viewer.until("document.querySelectorAll('#asked-forecasts canvas').length === 2")
        drawn = viewer.ask("[...window.drawn.get(document.querySelector('#asked-forecasts canvas'))]")
        viewer.loop.run_until_complete(viewer.tab.close())
    ticks = [text for text in drawn if text.endswith(("now", "row", "rows"))]
    assert ticks == (["-2 rows", "-1 row", "now", "1 row"] if rows == 3 else [f"{at} rows" if at else "now" for at in TENS])


def test_a_job_explains_only_shades_and_marks_that_it_has(rooms: Viewer, machines: Viewer) -> None:
    note = "document.getElementById('people-note').textContent"
    assert rooms.ask(note).startswith("Newest rows of each key.")
    said = "Newest rows of each key, in a stronger color for a larger LS error; ▾ alarm raised."
    assert machines.ask(note).startswith(said)


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_seven_of_200_machines_in_alarm_are_seen_first(machines: Viewer, width: int, dark: bool) -> None:
    machines.look(width, dark)
    assert machines.ask("document.documentElement.scrollWidth") == width and machines.ask(CUT) == []
    assert machines.ask(TILE.format("Open alarms"))[0] == "7" == str(machines.made.health.metrics.stats().drifting)
    titles = machines.ask(TITLES)
    assert titles[:2] == ["Alarms", "Activity"]
    assert not {"Label and prediction", "Dead letters"} & set(titles), "nothing to show, no panel"
    loud = [f"machine-{number:03}" for number in LOUD]
    shown = machines.ask(IN_ALARM)
    assert shown[:7] == [[key, True] for key in loud] and len(shown) == 24 and not any(alarm for _, alarm in shown[7:])
    rows = machines.ask("[...document.querySelectorAll('#alarms tbody tr')].map((one) => one.textContent)")
    assert len(rows) == 7 and all("open" in row and "vibration" in row for row in rows)
    assert machines.ask(BELOW) == 0, "all seven without scrolling"
    assert machines.ask(LINES_OF_IN_ALARM) == 1, "behind a key of several lines too"
    assert "176 more keys are not shown" in machines.ask("document.getElementById('people-note').textContent")


def test_a_value_without_neighbours_stays_visible(machines: Viewer) -> None:
    one, none = machines.ask(DOTS)
    assert one > 0 and none == 0


def test_a_key_that_is_not_shown_is_reached_from_the_list(machines: Viewer) -> None:
    machines.look(1440, False)
    machines.ask("document.getElementById('list').click()")
    assert machines.until("document.querySelectorAll('#listed button').length") == 200
    machines.ask("document.getElementById('key').value = '199'")
    machines.ask("document.getElementById('key').dispatchEvent(new Event('input'))")
    machines.until("document.querySelectorAll('#listed button').length === 1")
    machines.ask("document.querySelector('#listed button').click()")
    machines.until("document.querySelectorAll('#asked .facts dd').length > 5")
    machines.until("document.querySelector('.person.chosen button')?.textContent === 'machine-199'")
    machines.ask("document.getElementById('close').click()")
    machines.ask("document.getElementById('list').click()")


def test_after_a_restart_and_with_late_samples_the_page_says_so(machines: Viewer) -> None:
    machines.made.store()
    machines.made.restart()
    machines.made.feed(machine_rows(340, 341, moved=LOUD))
    machines.until("document.querySelectorAll('.person.alarm').length === 7")
    machines.until(f"{TILE.format('Keys')}[0] === '200'")
    assert machines.ask(TILE.format("Open alarms"))[0] == "7"
    machines.made.feed(machine_rows(200, 210))
    told = machines.until(
        "document.getElementById('trouble').checkVisibility() && document.getElementById('trouble').textContent"
    )
    assert "samples are late: older than the newest sample of their key" in told
    machines.until(f"{TILE.format('Skipped')}[0] === '2,000'")  # a partition after the other
    assert machines.ask(TILE.format("Skipped")) == ["2,000", "2,000 late"]
    assert machines.tab.errors == []


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_eighteen_classes_are_distinguished_and_the_matrix_is_whole_or_says_that_it_scrolls(
    people: Viewer, width: int, dark: bool
) -> None:
    people.look(width, dark)
    assert people.ask("document.documentElement.scrollWidth") == width and people.ask(CUT) == []
    swatches = people.ask(SWATCHES)
    assert len(swatches) == len(CLASSES) == len(set(swatches))
    assert people.ask(WRAPPED) == 0, "counts stay in one line"
    whole = people.ask(
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth + 1)(document.getElementById('confusion'))"
    )
    hint = people.ask("document.getElementById('confusion').previousElementSibling.checkVisibility()")
    fades = people.ask("document.getElementById('confusion').classList.contains('more')")
    assert (whole, hint, fades) == ((True, False, False) if width > 1000 else (False, True, True))
    assert people.ask(COVERED) == [], "names of rows stay above the cells that scroll under them"
    assert not {"Alarms", "Dead letters", "Worst keys", "LS error"} & set(people.ask(TITLES))


def test_strips_of_classes_with_one_color_differ(people: Viewer) -> None:
    people.look(1440, False)
    drawn = people.ask("""(() => {
      const one = document.querySelector(".person canvas"), seen = new Set();
      const pen = one.getContext("2d"), middle = 8 + 1 + 8 + 6;
      const look = (x, y) => pen.getImageData(x, y, 1, 1).data.join();
      const both = (x) => look(x, middle - 4) + look(x, middle);
      for (let x = 1; x < one.width - 1; x += 1)  // without the edges, of mixed colors
        if (both(x - 1) === both(x) && both(x) === both(x + 1)) seen.add(both(x));
      return seen.size;
    })()""")
    assert drawn == len(CLASSES)
    assert people.tab.errors == []


def test_a_sensor_that_stands_still_is_shown_with_its_number_and_the_time_of_its_record(browser: Any) -> None:
    still = {"job": {"name": "still"}, "source": FLEET["source"], "learner": FLEET["learner"], "metrics": {"port": 0}}
    rows = machine_rows(0, 250, machines=2)
    for name, body in rows[300:]:
        body["current"] = 8.13 if name == "machine-001" else body["current"]
    with fleet({**still, "alarms": {"stuck": True}}) as (made, url):
        made.feed(rows)
        viewer = _viewer(browser, made, url, "document.querySelectorAll('#alarms tbody tr').length === 1")
        row = viewer.ask("[...document.querySelectorAll('#alarms tbody td')].map((one) => one.innerText)")
        viewer.loop.run_until_complete(viewer.tab.close())
    assert re.fullmatch(r"current stands still at 8\.13\s*stuck, since 11/1\d/23, [\d:]+", row[2]), row
    assert re.fullmatch(r"open\s*11/1\d/23, [\d:]+", row[0]), "the alarm's start, not when the page was told"


def test_machines_that_cannot_alarm_yet_are_counted_next_to_the_open_alarms(browser: Any) -> None:
    with fleet(FLEET) as (made, url):
        made.feed(machine_rows(0, 60, machines=2) + machine_rows(60, 320, machines=1))
        viewer = _viewer(browser, made, url, f"!!document.querySelector('#tiles .tile') && {TILE.format('Keys')}[0] === '2'")
        found = viewer.ask(TILE.format("Open alarms"))
        viewer.loop.run_until_complete(viewer.tab.close())
    assert found == ["0", "keys; 0 raised in 380 rows; 1 key cannot alarm yet: each needs at least 229 rows"]


def test_alarms_of_sensors_are_seen_in_a_job_without_drift(browser: Any) -> None:
    with fleet(ROOMS | {"alarms": {"stuck": True}}) as (made, url):
        made.feed([(key, row | ({"load": 4.0} if n > 300 else {})) for n, (key, row) in enumerate(room_rows(600))])
        viewer = _viewer(browser, made, url, "!!document.querySelector('.person')")
        assert "Alarms" in viewer.ask(TITLES)
        in_alarm = str(made.health.metrics.stats().drifting)
        assert in_alarm != "0" and viewer.ask(TILE.format("Open alarms"))[0] == in_alarm
        viewer.loop.run_until_complete(viewer.tab.close())


def test_predictions_have_those_without_a_model_beside_them(people: Viewer) -> None:
    right, note = people.ask(TILE.format("Predicted right"))
    assert right == "17 %" and note == "of 5,400 labels; last label 83 %, most frequent 6 %"
    assert people.ask("document.getElementById('confusion-note').textContent").startswith(
        "5,394 labelled rows so far, 17 % right; last label 83 %, most frequent 6 %. 6 more arrived before"
    )


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1440, False)])
def test_a_key_of_200_characters_is_cut_where_it_would_widen_the_page(browser: Any, width: int, dark: bool) -> None:
    key = "k" * 200
    with fleet(FLEET) as (made, url):
        made.feed([(key, row) for _, row in machine_rows(0, 60, machines=1)])
        viewer = _viewer(browser, made, url, "!!document.querySelector('.person button')")
        viewer.look(width, dark)
        viewer.ask("document.querySelector('.person button').click()")
        viewer.until("document.querySelectorAll('#asked .facts dd').length > 5")
        viewer.look(width, dark)
        assert viewer.ask("document.documentElement.scrollWidth") == width
        assert viewer.ask("document.querySelector('.person').offsetHeight") < 130, "three lines of the key at most"
        assert viewer.ask("document.querySelector('.person button').title") == key
        assert viewer.ask("document.getElementById('asked-title').textContent") == f"Key {key}"
        viewer.loop.run_until_complete(viewer.tab.close())

"""Takes deploy/page.png, the README's picture: the live page of a worker that works on the demo's recordings.

python -m tests.golden.make_page_picture
"""

import asyncio
import tempfile
from pathlib import Path

from tests.page.chromium import Browser, chromium
from tests.page.job import demo_worker

PICTURE = Path(__file__).parents[2] / "deploy" / "page.png"
WIDTH, HEIGHT = 1440, 960
SHARE, SECONDS = 0.7, 40.0  # of the recordings, played within so long
CHOSEN = "person-08"
CHOOSE = f"[...document.querySelectorAll('.person button')].find((one) => one.textContent === '{CHOSEN}').click()"
ONLY_LINE = (
    "document.getElementById('asked').hidden = true, document.activeElement.blur()"  # its state would fill the picture
)


async def taken(address: str, url: str) -> None:
    async with Browser(address) as browser:
        tab = await browser.tab()
        await tab.open(url, width=WIDTH, height=HEIGHT)
        await tab.until("document.querySelectorAll('.person').length === 5 && !!document.querySelector('#letters tbody')")
        await tab.ask(CHOOSE)
        await tab.until("!!document.querySelector('.person.chosen')")
        await tab.ask(ONLY_LINE)
        await asyncio.sleep(1.0)  # laid out again, and the next second drawn
        await tab.picture(PICTURE)
        await tab.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as address,
        demo_worker(Path(folder), SECONDS, share=SHARE, hostile=()) as demo,
    ):
        asyncio.run(taken(address, demo.url))
    print(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

"""First paint of the page on a slow phone: `python -m benchmarks.first_paint --json`.

Chromium before a real service, a fresh profile each time: a CPU slowed 4 times, 1.6 Mbit/s down,
750 kbit/s up, 150 ms more for each answer (Lighthouse's "slow 4G"), 360 x 740 pixels. The largest
paint is that of the answer. What the server computes counts: each question is new to it.
Needs Playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from benchmarks.page_screenshots import ARGUMENTS, chromium, served

# `{n}` makes of each visit a question of its own.
PAGES = (
    "/",
    "/?task=training&model=resnet50&target_throughput={n}",
    "/language?task=generation&model=meta-llama/Llama-3.1-8B&users={n}",
    "/predict?task=training&model=resnet50&instance=g5.xlarge&target_throughput={n}",
    "/compare?task=training&model=resnet50&spec=g5.xlarge,g6.xlarge&target_throughput={n}",
)
PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
SLOW_4G = {
    "offline": False,
    "latency": 150,
    "downloadThroughput": 1_600_000 / 8,
    "uploadThroughput": 750_000 / 8,
}
SLOWER = 4
_PAINTS = """() => new Promise(done => {
  let largest = 0;
  new PerformanceObserver(list => { for (const one of list.getEntries()) largest = one.startTime; })
    .observe({ type: "largest-contentful-paint", buffered: true });
  setTimeout(() => {
    const [page] = performance.getEntriesByType("navigation");
    const files = performance.getEntriesByType("resource");
    done({
      first_paint_ms: performance.getEntriesByName("first-contentful-paint")[0].startTime,
      largest_paint_ms: largest, server_ms: page.responseStart - page.requestStart,
      bytes: page.transferSize + files.reduce((sum, one) => sum + one.transferSize, 0),
      requests: 1 + files.length,
    });
  }, 1000);
})"""


def visited(browser: Any, address: str) -> dict[str, float]:
    """The paints of one first visit, and what it loaded."""
    context = browser.new_context(**PHONE)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", SLOW_4G)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(address, wait_until="load")
    paints: dict[str, float] = page.evaluate(_PAINTS)
    context.close()
    return paints


def main() -> None:
    """Median and slowest of so many visits of each page."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for address in PAGES:
            # The first visit warms the service up, as another user would have.
            visits = [
                visited(browser, url + address.format(n=5 + number)) for number in range(arguments.visits + 1)
            ][1:]
            found[address] = {
                name: {"median": statistics.median(values), "most": max(values)}
                for name in visits[0]
                if (values := [one[name] for one in visits])
            }
        browser.close()
    print(json.dumps(found, indent=2) if arguments.json else _text(found))


def _text(found: dict[str, Any]) -> str:
    return "\n".join(
        f"{address}: first paint {one['first_paint_ms']['median']:.0f} ms "
        f"(slowest {one['first_paint_ms']['most']:.0f}), largest "
        f"{one['largest_paint_ms']['median']:.0f} ms, server {one['server_ms']['median']:.0f} ms, "
        f"{one['bytes']['median'] / 1000:.0f} kB in {one['requests']['median']:.0f} requests"
        for address, one in found.items()
    )


if __name__ == "__main__":
    main()

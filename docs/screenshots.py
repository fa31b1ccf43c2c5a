"""Takes the pictures of docs/guides/report.md: ``python docs/screenshots.py`` (extras ``all`` and ``dev``).

Needs Chromium and its driver.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

import gridsim as gs

IMAGES = Path(__file__).parent / "images"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
)


def taken(
    driver: Chrome, page: Path, name: str, width: int, height: int, dark: bool, part: str, top: bool
) -> None:
    """A picture of `width` x `height` px of a page with an open part, from the `top` or from that part on."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    driver.get(f"{page.as_uri()}#{part}")
    while not driver.execute_script("return document.documentElement.dataset.drawn"):
        time.sleep(0.1)
    if top:
        driver.execute_script("scrollTo(0, 0)")
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    (IMAGES / f"report-{name}.png").write_bytes(base64.b64decode(picture))


def main() -> None:
    bags = gs.Workload.bags(applications=40, interarrival=30.0, task_size=(65536.0, 131072.0), seed=1)
    scenario = gs.Scenario(gs.Platform.desktop_grid(200, seed=1), bags, seed=1)
    schedulers: dict[str, gs.Scheduler] = {
        "fair-tree": gs.FairTree(),
        "mincent": gs.MinCent(),
        "fcfs": gs.Fcfs(),
    }
    rigid = gs.Scenario(
        gs.Platform.equal(40),
        gs.Workload.jobs(150, utilization=0.8, max_nodes=12, seed=2),
        gs.Network(interfaces="equal"),
        seed=3,
    )
    reported: dict[str, Any] = {
        "compare": gs.compare(scenario, schedulers),
        "rigid": gs.compare(rigid, {"dgs-asap": gs.DgsAsap(), "backfill": gs.BatchQueue()}, record=True),
        "replicas": gs.compare(scenario, schedulers, replicates=10),
    }
    options: Any = ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        pages = {name: Path(folder, f"{name}.html") for name in reported}
        for name, results in reported.items():
            gs.write_report(results, pages[name])
        driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
        try:
            taken(driver, pages["compare"], "compare", 1200, 1340, dark=False, part="applications", top=True)
            taken(driver, pages["rigid"], "dark", 1200, 1110, dark=True, part="machines", top=False)
            taken(driver, pages["replicas"], "phone", 480, 1000, dark=False, part="comparison", top=True)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()

"""Reports in a browser: charts are drawn, themes change, nothing overflows or is loaded from the network.

Skipped without Chromium, its driver or selenium; with GRIDSIM_BROWSER in the environment they fail instead.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from tests._helpers.report_pages import bags, read

pytestmark = pytest.mark.slow

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAME = "<b>b</b></script><script>document.title = 'run'</script>"
LONG = "mincent of which the name is as long as those that say each of their parameters"
PATIENCE = 60.0  # s


def missing_requirement() -> str:
    """Return a program or package that is missing for the browser, or ""."""
    if find_spec("selenium") is None:
        return "selenium"
    for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)):
        if not any(map(shutil.which, names)):
            return names[0]
    return ""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if requirement := missing_requirement():
        message = f"a browser needs {requirement}"
        pytest.fail(message) if os.environ.get("GRIDSIM_BROWSER") else pytest.skip(message)
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    actual = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    options.binary_location = next(filter(None, actual))
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    driver.get("about:blank")
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory,
    single_run: gs.Result,
    comparison: gs.Comparison,
    compared_jobs: gs.Comparison,
    replicates: gs.Replicates,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    reported = {
        "single": single_run,
        "rigid": compared_jobs,
        "replicates": replicates,
        "names": {NAME: single_run, "mincent": comparison["mincent"]},
        "long": {LONG: comparison["mincent"], "fcfs": comparison["fcfs"]},
        "raster": gs.simulate(bags(130), gs.FairTree(), record=True),
    }
    for name, results in reported.items():
        gs.write_report(results, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in reported}


def wait(driver: Any, condition: str) -> Any:
    until = time.monotonic() + PATIENCE
    while not (value := driver.execute_script(f"return {condition}")):
        assert time.monotonic() < until, f"{condition}: {driver.get_log('browser')}"
        time.sleep(0.02)
    return value


DRAWN = "document.documentElement.dataset.drawn"


def look(driver: Any, width: int, dark: bool) -> None:
    """Set the width of the window (px) and the light or dark theme of the system."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})


def show(driver: Any, path: Path, width: int = 1280, dark: bool = False) -> None:
    """Load a page, and wait for its charts."""
    look(driver, width, dark)
    driver.get("about:blank")
    for log in ("browser", "performance"):
        driver.get_log(log)
    driver.get(path.as_uri())
    wait(driver, DRAWN)


def open_parts(driver: Any, charts: set[str]) -> None:
    """Open the folded sections, and wait for their charts."""
    driver.execute_script("for (const part of document.querySelectorAll('.part')) part.open = true")
    wait(driver, f"{DRAWN} === '{len(charts)}'")


def requested_addresses(driver: Any) -> list[str]:
    """Return the addresses that the page has requested, without embedded data."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [item["params"] for item in messages if item["method"] == "Network.requestWillBeSent"]
    return [url for item in sent if not (url := item["request"]["url"]).startswith(("data:", "blob:"))]


def brightness(driver: Any, expression: str) -> float:
    """Return the brightness of a colour of the page, 0 to 255."""
    text = driver.execute_script(f"return {expression}")
    return sum(map(float, text[text.index("(") + 1 : text.index(")")].split(",")[:3])) / 3


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
BEYOND = (
    "[...document.querySelectorAll('.plot')].filter(plot => [...plot.querySelectorAll('svg')]"
    ".some(svg => svg.getBoundingClientRect().right > plot.getBoundingClientRect().right + 1))"
    ".map(plot => plot.id)"
)
WIDTHS = (
    "[...document.querySelectorAll('.plot')].map(plot => [plot.offsetWidth, plot.parentElement.clientWidth, "
    "plot.querySelector('.legendtext') !== null])"
)
LABELS = "getComputedStyle(document.querySelector('.plot .xtick text, .plot .ytick text')).fill"


def check_page(driver: Any, charts: set[str], width: int, dark: bool) -> None:
    """Check that all charts are drawn in the colours of the theme, and nothing is wider than the window."""
    assert int(driver.execute_script(f"return {DRAWN}")) == len(charts) > 4
    marks = driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.plot')].map(plot => [plot.id, "
        "plot.querySelectorAll('.trace path, .bars path, image').length]))"
    )
    assert set(marks) == charts and all(marks.values()), marks
    inside, full_run = driver.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert inside == width >= full_run
    assert driver.execute_script(f"return {BEYOND}") == []
    # on a phone, charts of several series are not smaller, but scroll
    widths = driver.execute_script(f"return {WIDTHS}")
    assert all(own == max(500 * has_legend, box) for own, box, has_legend in widths)
    assert (brightness(driver, BACKGROUND) < 60) == dark and (brightness(driver, LABELS) > 190) == dark


@pytest.mark.parametrize("name", ["single", "rigid", "replicates", "names", "raster"])
def test_all_charts_are_drawn_offline(browser: Any, pages: dict[str, Path], name: str) -> None:
    charts = set(read(pages[name]).charts)
    show(browser, pages[name], 480, dark=True)
    open_parts(browser, charts)
    check_page(browser, charts, 480, dark=True)
    # the window grows, and the system changes to the light theme
    look(browser, 1280, dark=False)
    wait(browser, f"{DRAWN} && {LABELS} === getComputedStyle(document.body).color")
    wait(browser, "document.querySelector('.plot svg').getBoundingClientRect().width > 480")
    check_page(browser, charts, 1280, dark=False)
    look(browser, 390, dark=False)
    wait(browser, f"{BEYOND}.length === 0")
    check_page(browser, charts, 390, dark=False)
    assert browser.get_log("browser") == []
    assert requested_addresses(browser) == [pages[name].as_uri()]
    assert browser.title == browser.execute_script("return document.querySelector('h1').textContent")
    if name == "names":
        assert browser.title == f"{NAME} and mincent compared"
        legend = "[...document.querySelectorAll('.plot .legendtext')].map(text => text.textContent)"
        assert any(text.startswith("<b>b</b>") for text in browser.execute_script(f"return {legend}"))
        assert browser.execute_script("return document.querySelectorAll('script').length") == 3


def test_a_long_name_leaves_room_in_the_table(browser: Any, pages: dict[str, Path]) -> None:
    """The name is the title of a column of short numbers."""
    show(browser, pages["long"], 1200)
    open_parts(browser, set(read(pages["long"]).charts))
    heads = dict(
        browser.execute_script(
            "return [...document.querySelectorAll('thead small')].map(e => [e.innerText, e.offsetWidth])"
        )
    )
    assert 0 < heads[f"to {LONG}"] < 150
    legend = "[...document.querySelectorAll('#time-0 .legendtext tspan')].map(line => line.textContent)"
    assert " ".join(browser.execute_script(f"return {legend}")) == LONG


def test_the_theme_changes_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(browser, pages["replicates"], dark=True)
    button = browser.find_element(By.ID, "theme")
    assert button.text == "Light mode"
    for now in (False, True):
        button.send_keys(Keys.ENTER)
        wait(browser, DRAWN)
        assert (brightness(browser, BACKGROUND) < 60) == now and (brightness(browser, LABELS) > 190) == now
        assert button.text == ("Light mode" if now else "Dark mode")
    assert browser.get_log("browser") == []


def test_the_copy_button_copies_the_scenario(
    browser: Any, pages: dict[str, Path], single_run: gs.Result
) -> None:
    from selenium.webdriver.common.by import By

    show(browser, pages["single"])
    open_parts(browser, set(read(pages["single"]).charts))
    browser.find_element(By.CSS_SELECTOR, "details.code summary").click()
    text = browser.find_element(By.CSS_SELECTOR, "details.code code").get_attribute("textContent")
    assert gs.Scenario.from_toml(text).to_toml() == single_run.scenario.to_toml()
    browser.find_element(By.CSS_SELECTOR, "details.code .copy").click()
    wait(browser, "document.querySelector('details.code .copy').textContent === 'Copied'")


def test_printed_report_is_light_with_all_details_open(browser: Any, pages: dict[str, Path]) -> None:
    show(browser, pages["rigid"], dark=True)
    closed_before = browser.execute_script("return document.querySelectorAll('details:not([open])').length")
    browser.execute_script(
        "addEventListener('beforeprint', () => { window.seen = ["
        f"{BACKGROUND}, {LABELS}, document.querySelectorAll('details:not([open])').length]; }})"
    )
    assert len(browser.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 50_000
    ground, labels, closed = browser.execute_script("return window.seen")
    assert ground == "rgb(255, 255, 255)" and closed == 0 and labels != ground
    wait(browser, DRAWN)
    assert brightness(browser, BACKGROUND) < 60
    closed_after = browser.execute_script("return document.querySelectorAll('details:not([open])').length")
    assert closed_after == closed_before
    assert browser.get_log("browser") == []


def test_tables_are_shown_without_javascript(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By

    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages["names"].as_uri())
        assert "The charts require JavaScript" in browser.find_element(By.TAG_NAME, "noscript").text
        first = browser.find_element(By.TAG_NAME, "table")
        assert first.is_displayed() and "mincent" in first.text
        assert not browser.find_element(By.ID, "theme").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_an_animation_shows_the_states_of_the_run(browser: Any, tmp_path: Path) -> None:
    """The script computes the same states as `Animation.state`, and draws nothing beyond the window."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    faults = {"kind": "exponential", "up": 2000.0, "down": 300.0, "seed": 4}
    result = gs.simulate(bags(20).replaced({"faults": faults}), gs.FairTree(), record="all")
    animation = gs.plots.animate(result)
    animation.save(tmp_path / "a.html")
    look(browser, 390, dark=True)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    browser.get((tmp_path / "a.html").as_uri())
    script = """
        const { gridsim } = document.querySelector(".gridsim-animation");
        gridsim.seek(arguments[0]);
        const { running, done, runs, waiting, pending, up } = gridsim.state();
        return { running, done, runs, waiting, pending, up };
    """
    scene = animation.scene
    for k in range(1, 40):
        time = scene.begin + (scene.end - scene.begin) * k / 40.123
        drawn, state = browser.execute_script(script, time), animation.state(time)
        assert drawn["running"] == state.running.tolist() and drawn["up"] == state.is_up.tolist()
        assert drawn["done"] == state.done.tolist() and drawn["runs"] == state.running_tasks.tolist()
        assert drawn["waiting"] == state.queued.tolist()
        assert drawn["pending"] == state.pending.tolist()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    canvas = "document.querySelector('canvas')"
    assert browser.execute_script(f"return {canvas}.offsetWidth") == 80 + 16 * 20
    player = browser.find_element(By.CSS_SELECTOR, ".gridsim-animation")
    player.send_keys(Keys.HOME)
    assert float(player.get_attribute("data-time")) == pytest.approx(scene.begin)
    player.send_keys(Keys.ARROW_RIGHT)
    assert float(player.get_attribute("data-time")) > scene.begin
    player.send_keys(Keys.SPACE)
    wait(browser, "Number(document.querySelector('input').value) > 10")
    assert player.find_element(By.CSS_SELECTOR, ".play").text == "Pause"
    notebook = tmp_path / "b.html"
    notebook.write_text(f"<!DOCTYPE html>{animation._repr_html_()}", encoding="utf-8")
    browser.get(notebook.as_uri())
    frame = "document.querySelector('iframe')"
    for width in (390, 1200):
        look(browser, width, dark=True)
        wait(browser, f"{frame}.clientHeight === {frame}.contentDocument.body.offsetHeight")
    assert browser.get_log("browser") == []

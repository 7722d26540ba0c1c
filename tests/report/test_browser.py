"""Facts about the report in a real Chromium: it shows everything, logs nothing, and requests nothing.

These tests run wherever Chromium and its driver are installed, and are skipped elsewhere. `make test-browser` installs
both and skips no test.
"""

import base64
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import opdop
from opdop.report.html.write import write_report
from opdop.report.summary.collection import gather

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = not (CHROMIUM and DRIVER)
WHY = "no Chromium here: install it with `make test-browser` (apt-get: chromium chromium-driver)"
pytestmark = pytest.mark.skipif(MISSING and os.environ.get("OPDOP_BROWSER") != "must", reason=WHY)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [opdop.train("media-streaming", name, episodes=3000, seed=s) for name in ("opdop", "oppo") for s in (0, 1)]
    runs.append(opdop.train("river-crossing", episodes=300))
    return write_report(gather(runs), tmp_path_factory.mktemp("report") / "report.html", kinds=()).page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.get("about:blank")
        yield driver
    finally:
        driver.quit()


def open_page(browser: Any, page: Path, *, width: int = 1280, scheme: str = "light") -> None:
    """Open the page at this width and in this colour scheme, with empty logs before."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(page.as_uri())


def requested(browser: Any) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}


def picture(browser: Any, box: dict[str, float]) -> np.ndarray:
    """Return what is seen in a part of the page, [height, width, 3]."""
    clip = {"captureBeyondViewport": True, "clip": {**box, "scale": 1}}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", clip)["data"]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), dtype=np.int64)


def boxes(browser: Any, what: str) -> list[dict[str, float]]:
    return list(
        browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => {const b = e.getBoundingClientRect();"
            "return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}})",
            what,
        )
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_console_is_silent_and_nothing_is_requested_but_the_page(browser: Any, page: Path, scheme: str) -> None:
    open_page(browser, page, scheme=scheme)
    assert browser.get_log("browser") == []
    assert {url for url in requested(browser) if not url.startswith("data:")} == {page.as_uri()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_seen_and_stands_out_from_the_page(browser: Any, page: Path, scheme: str) -> None:
    open_page(browser, page, scheme=scheme)
    found = boxes(browser, "svg.figure")
    assert len(found) == page.read_text(encoding="utf-8").count("<figure>") > 15
    for box in found:
        assert box["width"] > 200
        assert box["height"] > 80
        seen = picture(browser, box)
        paper = seen[1, 1]
        assert (paper.mean() < 64) == (scheme == "dark")
        apart = np.abs(seen - paper).sum(axis=2)
        assert (apart > 300).mean() > 0.005  # letters and lines
        assert (seen.max(axis=2) - seen.min(axis=2) > 60).mean() > 0.001  # colours


def test_words_of_figures_can_be_read_on_both_sides(browser: Any, page: Path) -> None:
    for scheme in ("light", "dark"):
        open_page(browser, page, scheme=scheme)
        ink, paper = (
            browser.execute_script(
                "const t = document.createElement('i'); t.style.color = `var(${arguments[0]})`;"
                "document.body.append(t); const c = getComputedStyle(t).color; t.remove();"
                "return c.match(/[0-9]+/g).map(Number)",
                name,
            )
            for name in ("--ink", "--paper")
        )
        assert contrast(ink, paper) > 7.0


def contrast(one: list[int], two: list[int]) -> float:
    """Return the contrast of two colours as the web's accessibility guidelines define it."""

    def luminance(colour: list[int]) -> float:
        share = np.array(colour) / 255
        linear = np.where(share <= 0.03928, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    bright, dim = sorted((luminance(one), luminance(two)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_narrow_screen_shows_every_cell_of_every_table(browser: Any, page: Path) -> None:
    open_page(browser, page, width=400)
    cells = boxes(browser, "td:not(:empty)")
    assert len(cells) > 50
    assert all(box["width"] > 0 and box["x"] >= 0 and box["x"] + box["width"] <= 400 for box in cells)
    hidden = "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert browser.execute_script(hidden) == 0
    # Above its value each cell names its column: the constrained quantity is one of them.
    named = browser.execute_script(
        "return [...document.querySelectorAll('td')].map(e => getComputedStyle(e, '::before').content)"
    )
    assert '"fast services"' in named


def test_wide_screen_has_tables_with_columns(browser: Any, page: Path) -> None:
    open_page(browser, page)
    shown = browser.execute_script("return getComputedStyle(document.querySelector('td'), '::before').content")
    assert shown == "none"


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_page_never_has_to_be_scrolled_sideways(browser: Any, page: Path, width: int) -> None:
    open_page(browser, page, width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert all(box["x"] + box["width"] <= width for box in boxes(browser, "figure, h1, h2, .card, .scroll"))


def test_every_link_of_the_contents_leads_to_its_section(browser: Any, page: Path) -> None:
    open_page(browser, page)
    targets = browser.execute_script("return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert len(targets) >= 4
    for target in targets:
        assert len(boxes(browser, target)) == 1


def test_dark_screens_print_on_white_paper(browser: Any, page: Path) -> None:
    open_page(browser, page, scheme="dark")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    ink = browser.execute_script("return getComputedStyle(document.body).color")
    assert colour == "rgb(255, 255, 255)"
    assert ink == "rgb(34, 34, 34)"
    made = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    data = base64.b64decode(made["data"])
    assert data.startswith(b"%PDF")
    assert 4 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") + data.count(b"/Type /Page/") <= 40
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

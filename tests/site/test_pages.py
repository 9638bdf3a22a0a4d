"""Every page of the built site, opened in Chromium: light, dark, on a phone, without scripts."""

from pathlib import Path

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TOC = Path(__file__).resolve().parents[2] / "book" / "_toc.yml"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 812}
AXE = {"preload": False, "resultTypes": ["violations"]}
MATH_FONT = "TeX Gyre Pagella Math"


def pages() -> list[str]:
    """The pages of the table of contents, the sampler, and those that Sphinx adds."""
    toc = yaml.safe_load(TOC.read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [toc["root"], *chapters, "search", "genindex", "sampler"]


@pytest.fixture(params=pages())
def url(request, html, sampler, serve) -> str:
    return f"{serve(sampler if request.param == 'sampler' else html)}/{request.param}.html"


def open_page(browser, url: str, **options):
    """A fresh page at ``url``, and the list in which what goes wrong with it is noted."""
    page = browser.new_context(**options).new_page()
    host = "/".join(url.split("/")[:3])
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith((host, "data:", "blob:")) else wrong.append(request.url),
    )
    page.on("response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.goto(url, wait_until="load")
    page.evaluate("document.fonts.ready.then(() => true)")
    return page, wrong


def invisible_formulas(page) -> list[str]:
    """Formulas without a box, after every fold is opened."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.setAttribute('open', ''))")
    # Code in a fold fades in, and half faded it is too pale to read.
    page.evaluate(
        """() => Promise.all(document.getAnimations()
            .filter(animation => animation.effect.getComputedTiming().endTime !== Infinity)
            .map(animation => animation.finished)).then(() => true)"""
    )
    return page.evaluate(
        """() => [...document.querySelectorAll("main math")]
            .filter(formula => formula.getClientRects().length === 0 || formula.getBoundingClientRect().width < 3)
            .map(formula => formula.textContent)"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_loads_clean_and_is_accessible(browser, url, scheme):
    page, wrong = open_page(browser, url, viewport=DESKTOP, color_scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert invisible_formulas(page) == []
    found = Axe().run(page, options=AXE).response["violations"]
    serious = [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    page.context.close()
    assert serious == []
    assert wrong == []


def test_a_page_fits_on_a_phone(browser, url):
    page, wrong = open_page(browser, url, viewport=PHONE, has_touch=True, is_mobile=True)
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.setAttribute('open', ''))")
    # Code in a fold fades in, and half faded it is too pale to read.
    page.evaluate(
        """() => Promise.all(document.getAnimations()
            .filter(animation => animation.effect.getComputedTiming().endTime !== Infinity)
            .map(animation => animation.finished)).then(() => true)"""
    )
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("article *")].filter(element => {
            if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
            for (let box = element.parentElement; box; box = box.parentElement)
                if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(box).overflowX)) return false;
            return true;
        }).map(element => element.outerHTML.slice(0, 120))"""
    )
    width = page.evaluate("document.scrollingElement.scrollWidth")
    scrollers = page.evaluate(
        """() => [...document.querySelectorAll(".math-scroll")]
            .filter(box => box.scrollWidth > box.clientWidth && box.tabIndex !== 0).map(box => box.textContent)"""
    )
    page.context.close()
    assert too_wide == []
    assert width <= PHONE["width"]
    assert scrollers == [], "a formula that scrolls must take the keyboard's focus"
    assert wrong == []


def test_a_page_reads_without_scripts(browser, url):
    page, wrong = open_page(browser, url, viewport=DESKTOP, java_script_enabled=False)
    assert page.locator("main h1:visible").count() == 1
    assert len(page.locator("main").inner_text()) > 60
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for fold in page.locator("details.answer").all():
        content = fold.locator("> :not(summary)").first
        assert not content.is_visible()
        fold.locator("> summary").click()
        assert content.is_visible()
    assert invisible_formulas(page) == []
    page.context.close()
    assert wrong == []


def test_formulas_use_the_font_that_the_site_ships(browser, sampler, serve):
    page, _ = open_page(browser, f"{serve(sampler)}/sampler.html", viewport=DESKTOP)
    loaded = page.evaluate(
        "[...document.fonts].filter(f => f.status === 'loaded').map(f => f.family.replaceAll('\"', ''))"
    )
    heights = page.evaluate(
        """() => [...document.querySelectorAll("mo")].filter(operator => operator.textContent === "[")
            .map(operator => operator.getBoundingClientRect().height)"""
    )
    page.context.close()
    assert MATH_FONT in loaded
    assert max(heights) > 60, "the bracket of a matrix must be as high as its four rows"


def test_the_search_finds_a_page(browser, html, serve):
    page, wrong = open_page(browser, f"{serve(html)}/search.html?q=softmax", viewport=DESKTOP)
    page.wait_for_selector("#search-results li a")
    titles = page.locator("#search-results li a").all_inner_texts()
    page.context.close()
    assert any("Getting started" in title for title in titles)
    assert wrong == []

"""Links, anchors, images and fonts of the built site, checked without a network."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont

pytestmark = pytest.mark.slow

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"


@pytest.fixture(scope="module")
def soups(html) -> dict[Path, BeautifulSoup]:
    found = (page for page in html.rglob("*.html") if "_static" not in page.parts)
    return {page: BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser") for page in found}


def test_every_link_and_anchor_leads_somewhere(soups):
    names = {page: {tag["id"] for tag in soup.select("[id]")} for page, soup in soups.items()}
    broken = []
    for page, soup in soups.items():
        for tag in soup.select("[href], [src]"):
            link = tag.get("href") or tag.get("src") or ""
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in names.get(target, ())):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(soups):
    loading = "script[src], link[href], img[src], iframe, video, audio, source, object, embed"
    foreign = [
        f"{page.name}: {tag}"
        for page, soup in soups.items()
        for tag in soup.select(loading)
        if urlsplit(tag.get("href") or tag.get("src") or tag.get("data") or "").netloc
    ]
    assert foreign == []


def test_style_sheets_load_nothing_from_another_host(html):
    for sheet in html.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"url\(['\"]?(https?:)?//", text), sheet
        assert not re.search(r"@import\s+(url\()?['\"]?(https?:)?//", text), sheet


def test_every_image_of_the_text_says_what_it_shows(soups):
    silent = [
        f"{page.name}: {image.get('src')}"
        for page, soup in soups.items()
        for image in soup.select("article img")
        if not image.get("alt", "").strip()
    ]
    assert silent == []


def test_no_script_typesets_formulas_and_no_icon_script_is_left(soups, html):
    scripts = " ".join(tag["src"].lower() for soup in soups.values() for tag in soup.select("script[src]"))
    assert not re.search(r"mathjax|katex|thebe|fontawesome|require", scripts)
    assert not list(html.rglob("fontawesome.js*"))


def test_the_math_font_has_every_character_of_every_formula(soups):
    known = set(TTFont(STATIC / "fonts" / "texgyrepagella-math.woff2").getBestCmap())
    invisible = {0x2061, 0x2062, 0x2063, 0x200B, 0x0A, 0x09}
    used = {character for soup in soups.values() for formula in soup.select("math") for character in formula.get_text()}
    assert used, "the site has no formulas"
    assert sorted(c for c in used if ord(c) not in known | invisible) == []

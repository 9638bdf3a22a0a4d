"""The figure of heads: what is drawn is what was measured, without scripts and with them."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from lab.head_figure import describe, draw

STATIC = Path(__file__).parents[2] / "book" / "_static"
PIECES = ["[CLS]", "a", "<dog>", "ate"]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3, 4))
PERCENTS = np.rint(100 * WEIGHTS).astype(int)


def test_the_drawing_says_what_was_measured():
    markup = draw(PIECES, WEIGHTS, layer=1, head=2, word=3)
    said = html.unescape(re.search(r'<p class="hf-words"[^>]*>(.*?)</p>', markup)[1])
    assert said == describe(PIECES, PERCENTS[1, 2, 3], 1, 2, 3)
    assert re.findall(r"class='hf-percent'[^>]*>(\d+) %", markup) == [str(n) for n in PERCENTS[1, 2, 3]]
    data = json.loads(html.unescape(re.search(r"data-heads='(.*?)'", markup)[1]))
    assert data["pieces"] == PIECES
    np.testing.assert_array_equal(np.reshape(data["percents"], WEIGHTS.shape), PERCENTS)
    assert "<dog>" not in markup


def test_the_table_names_the_strongest_word_of_every_head():
    markup = html.unescape(draw(PIECES, WEIGHTS, layer=0, head=0, word=1))
    cells = re.findall(r"<td class='hf-cell.*?>(\S+ \d+)</td>", markup)
    wanted = [f"{PIECES[row.argmax()]} {row.max()}" for row in PERCENTS[:, :, 1].reshape(-1, 4)]
    assert cells == wanted


def test_the_script_is_small():
    assert (STATIC / "head_figure.js").stat().st_size < 10_000


@pytest.mark.browser
def test_controls_words_and_cells_change_what_is_drawn(browser):
    style, script = ((STATIC / f"head_figure.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    markup = draw(PIECES, WEIGHTS, layer=0, head=0, word=1)
    page = browser.new_page()
    page.set_content(f"<style>{style}</style>{markup}<script>{script}</script>")

    def assert_shown(layer, head, word):
        row = PERCENTS[layer, head, word]
        assert page.locator(".hf-words").inner_text() == describe(PIECES, row, layer, head, word)
        assert page.locator(".hf-percent").all_text_contents() == [f"{percent} %" for percent in row]
        best = [f"{PIECES[r.argmax()]} {r.max()}" for r in PERCENTS[:, :, word].reshape(-1, 4)]
        assert page.locator(".hf-cell").all_inner_texts() == best
        chosen = (page.get_by_role("combobox", name=name).input_value() for name in ("layer", "head", "word"))
        assert [int(number) for number in chosen] == [layer, head, word]

    assert_shown(0, 0, 1)
    page.get_by_role("combobox", name="layer").focus()
    page.keyboard.press("ArrowDown")
    assert_shown(1, 0, 1)
    page.get_by_role("combobox", name="word").select_option(label="ate")
    assert_shown(1, 0, 3)
    page.locator(".hf-asks").nth(2).click()
    assert_shown(1, 0, 2)
    page.locator(".hf-cell").nth(2).click()
    assert_shown(0, 2, 2)
    page.close()

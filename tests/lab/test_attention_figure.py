"""The figure to move: what is drawn is what the kernel gives, without scripts and with them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from autograder.reference.attention_layer import attention_weights
from lab.attention_figure import draw

STATIC = Path(__file__).parents[2] / "book" / "_static"
KEYS = np.array([[2.2, 1.0], [0.4, 2.5], [-2.3, 1.2]])
VALUES = np.array([[-2.4, -1.8], [0.0, 2.5], [2.3, -1.8]])


def kernel_weights(query):
    return attention_weights(torch.tensor([query], dtype=torch.float64), torch.from_numpy(KEYS))[0].numpy()


def shown(words):
    """Query, weights and output, as the sentence under the figure says them."""
    query, weights, output = re.fullmatch(r"query at \((.*)\); weights (.*); output \((.*)\)", words).groups()
    return [[float(number) for number in part.split(", ")] for part in (query, weights, output)]


def test_the_drawing_says_what_the_kernel_gives():
    markup = draw(KEYS, VALUES, np.array([1.4, 1.2]))
    query, weights, output = shown(re.search(r'<p class="af-words"[^>]*>(.*?)</p>', markup)[1])
    assert query == [1.4, 1.2]
    np.testing.assert_allclose(weights, kernel_weights(query), atol=0.005)
    np.testing.assert_allclose(output, kernel_weights(query) @ VALUES, atol=0.005)
    assert markup.count("af-bar'") == len(KEYS)


def test_the_script_is_small():
    assert (STATIC / "attention_figure.js").stat().st_size < 10_000


@pytest.mark.browser
def test_arrow_keys_pointer_and_slider_move_what_is_drawn(browser):
    markup = draw(KEYS, VALUES, np.array([1.4, 1.2]))
    script = (STATIC / "attention_figure.js").read_text(encoding="utf-8")
    page = browser.new_page()
    style = (STATIC / "attention_figure.css").read_text(encoding="utf-8")
    page.set_content(f"<style>{style}</style>{markup}<script>{script}</script>")
    words = page.locator(".af-words")
    handle = page.get_by_role("slider", name="The query")

    handle.focus()
    for key in ["ArrowLeft"] * 4 + ["Shift+ArrowDown"] * 3:
        page.keyboard.press(key)
    query, weights, output = shown(words.inner_text())
    assert query == [1.0, -0.3]
    np.testing.assert_allclose(weights, kernel_weights(query), atol=0.006)
    np.testing.assert_allclose(output, kernel_weights(query) @ VALUES, atol=0.006)

    for key, wanted in (("Home", -3.2), ("End", 3.2)):
        page.keyboard.press(key)
        assert shown(words.inner_text())[0] == [wanted, -0.3]

    box = page.locator(".af-plane").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    _, weights, _ = shown(words.inner_text())
    np.testing.assert_allclose(weights, 1 / 3, atol=0.02)

    page.keyboard.press("Shift+ArrowRight")
    before = max(shown(words.inner_text())[1])
    page.locator(".af-controls input").fill("3")
    assert max(shown(words.inner_text())[1]) > before
    page.close()

"""A feedback page in Chromium: it opens alone, in light and dark, on a phone, for everyone."""

import html
import re

import pytest

from autograder.grading import feedback
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult
from autograder.grading.session import CellProblem

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SOURCE = (
    'def softmax(x, axis=-1):\n    """Weights."""\n' + "    y = x  # a long line that has to scroll sideways" * 3 + "\n"
)
SOURCE += "    if axis == 1:\n        raise ValueError(f'axis {axis!r}')\n    return x + 1.5\n"
ASPECTS = (AspectMark("values", False, 0, 2, "`weights` should be finite."), AspectMark("any axis", True, 1, 1))
RESULT = SubmissionResult(
    "getting_started",
    (
        KernelMark("softmax", False, 1, 3, "softmax: 1 of 2 right.", ASPECTS, ("First.", "Second."), source=SOURCE),
        KernelMark("other", True, 1, 1, "other: all hidden cases pass.", ASPECTS[1:], source=SOURCE),
        KernelMark("third", False, 0, 1, "third: 0 of 1 right.", ASPECTS[:1]),
    ),
    (CellProblem(3, "raised", "NameError: name 'x' is not defined", 2),),
    ("Placed by what it holds: a.ipynb should be b.ipynb.",),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_the_page_opens_alone_for_everyone(browser, tmp_path, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    path = tmp_path / "page.html"
    path.write_text(feedback.page("李雷 محمد", RESULT), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()]
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") == (
        scheme == "light"
    )
    page.locator("details").nth(1).locator("summary").click()
    assert page.locator("details pre").nth(1).is_visible()
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")] == []
    page.close()


def test_the_page_names_the_chapter_as_its_notebook_does_and_shows_the_code_without_the_contract():
    contract = '    """Weights that sum to one.\n\n    Parameters\n    ----------\n    x\n        Scores.\n    """\n'
    source = f'class Softmax:\n    """Short."""\n\n    def __call__(self, x):\n    {contract}        return x + 1.5'
    source = source.replace("\n    \n", "\n")
    mark = KernelMark("softmax", True, 1, 1, "softmax: all hidden cases pass.", ASPECTS[1:], source=source)
    text = feedback.page("anna", SubmissionResult("rnn_encoder_decoder", (mark,)))
    shown = html.unescape(re.sub(r"<[^>]*>", "", text))
    assert "The recurrent encoder-decoder: feedback for anna" in shown
    assert '"""Weights that sum to one. …"""\n        return x + 1.5' in shown
    assert '"""Short."""' in shown


@pytest.mark.parametrize("source", ["def f(x):\n    return (", 'def f(x):\n    """One.\n\n    Two."""\n    return 1'])
def test_code_that_has_no_contract_to_leave_out_is_shown_whole(source):
    mark = KernelMark("softmax", False, 0, 1, "softmax: 0 of 1 right.", ASPECTS[:1], source=source)
    text = feedback.page("anna", SubmissionResult("getting_started", (mark,)))
    assert source in html.unescape(re.sub(r"<[^>]*>", "", text))

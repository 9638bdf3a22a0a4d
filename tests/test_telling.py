"""What a person reads: as text without colour, as HTML, and never an expected number."""

import dataclasses
import re

import numpy as np
import pytest

from autograder import catalog, telling
from autograder.checking import edited
from autograder.judging import evaluate, not_run
from autograder.probing import Fault
from autograder.reference import getting_started as reference

RIGHT = edited(reference.softmax)
KERNELS = {
    "right": RIGHT,
    "sum of all": next(m.kernel for m in catalog.check_of("softmax").mistakes if m.id == "softmax-total-of-all"),
    "wrong shape": lambda x, axis: x.sum(axis),
    "nothing": lambda x, axis: None,
    "error": lambda x, axis: x @ x @ x @ np.ones(99),
}


def stub(x, axis=-1):
    raise NotImplementedError


@pytest.mark.parametrize("kernel", [*KERNELS.values(), stub], ids=[*KERNELS, "stub"])
@pytest.mark.parametrize("seed", [None, 1], ids=["visible", "hidden"])
def test_text_and_html_say_the_same(kernel, seed):
    report = evaluate("softmax", kernel, seed)
    text, page = " ".join(telling.as_text(report).split()), telling.as_html(report)
    words = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page)
    assert telling.headline(report) in text
    assert telling.headline(report) in words
    for aspect in report.aspects:
        assert aspect.title in text
        assert aspect.title in words
    for advice in report.advice:
        assert advice in text


def test_visible_success_does_not_promise_the_grade():
    text = telling.as_text(evaluate("softmax", RIGHT))
    assert text.splitlines()[0] == "softmax: all visible cases pass."
    assert telling.headline(evaluate("softmax", RIGHT, 1)) == "softmax: all hidden cases pass."


def test_a_named_mistake_is_told_with_the_case():
    text = telling.as_text(evaluate("softmax", KERNELS["sum of all"]))
    assert "Case: a matrix, along its last axis." in text
    assert "-> You divide by the sum over the whole array" in text
    assert 'For the next hint: hint("softmax")' in text
    in_a_shell = telling.as_text(evaluate("softmax", KERNELS["sum of all"]), next_hint="autograder hint {kernel}")
    assert "For the next hint: autograder hint softmax" in in_a_shell


def test_a_stub_is_not_written_yet():
    text = telling.as_text(evaluate("softmax", stub))
    assert text.count("Not written yet: the kernel raises NotImplementedError.") == 1
    assert text.startswith("softmax: the placeholder still stands in it")


def test_an_error_has_its_line():
    text = " ".join(telling.as_text(evaluate("softmax", KERNELS["error"])).split())
    assert re.search(r"Your kernel raised ValueError: .* \(line \d+ of your cell\)", text)


def test_a_hidden_report_shows_no_case():
    report = evaluate("softmax", KERNELS["sum of all"], seed=2)
    for told in (telling.as_text(report), telling.as_html(report)):
        assert "Case:" not in told
        assert "a matrix, along its last axis" not in told
        assert "<svg" not in told


def test_the_picture_shows_target_yours_and_difference_without_numbers():
    page = telling.as_html(evaluate("softmax", KERNELS["sum of all"]))
    labels = re.findall(r"aria-label='([^']+)'", page)
    assert labels[:3] == ["target: weights", "yours: weights", "difference: weights"]
    assert not re.search(r"<text|<title", page)


def test_a_small_difference_is_enlarged_and_says_so():
    epsilon = next(m.kernel for m in catalog.check_of("softmax").mistakes if m.id == "softmax-epsilon-in-sum")
    page = telling.as_html(evaluate("softmax", epsilon))
    difference = re.search(r"aria-label='difference, enlarged: weights'.*?</svg>", page)[0]
    assert "<figcaption>difference, enlarged</figcaption>" in page
    assert "rgb(0,0,255)" in difference


def test_rounding_beside_a_nan_is_not_enlarged():
    plain = next(m.kernel for m in catalog.check_of("softmax").mistakes if m.id == "softmax-plain-formula")
    assert "enlarged" not in telling.as_html(evaluate("softmax", plain))


def test_text_fits_a_terminal_and_keeps_its_margin():
    lines = telling.as_text(evaluate("softmax", KERNELS["sum of all"])).splitlines()
    assert max(map(len, lines)) <= telling.COLUMNS
    why = next(i for i, line in enumerate(lines) if "Case:" in line)
    assert re.match(r" *", lines[why])[0] == re.match(r" *", lines[why + 1])[0]


def test_several_mistakes_are_led_in_and_other_advice_is_not():
    alike = {"softmax-all-masked-nan", "softmax-zero-over-zero"}
    report = evaluate("softmax", next(m.kernel for m in catalog.check_of("softmax").mistakes if m.id in alike))
    assert alike <= set(report.mistakes)
    assert len(report.advice) > 1
    assert "Several mistakes look like this; yours may be one of them:" in telling.as_text(report)
    one = evaluate("softmax", KERNELS["sum of all"])
    advised = dataclasses.replace(one, advice=("Delete the placeholder.", *one.advice))
    assert "Several mistakes" not in telling.as_text(advised)


def test_a_picture_survives_values_that_are_not_finite():
    page = telling.as_html(evaluate("softmax", lambda x, axis: np.where(x > 0, np.nan, np.inf)))
    assert "fill='#000'" in page


def test_what_comes_from_a_student_is_escaped():
    def hostile(x, axis):
        raise ValueError("<script>alert(1)</script>")

    page = telling.as_html(evaluate("softmax", hostile))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_reference_and_ready_made_functions_are_told():
    assert "the course's own kernel" in telling.headline(evaluate("softmax", reference.softmax))
    import torch

    report = evaluate("softmax", lambda x, axis: torch.softmax(torch.from_numpy(np.array(x)), axis).numpy())
    assert "`torch.softmax`, which does the whole work" in telling.headline(report)


def test_a_kernel_that_did_not_run_has_its_reason():
    report = not_run("softmax", Fault("stopped", "Stopped after 5 CPU seconds."))
    assert "Stopped after 5 CPU seconds." in telling.as_text(report)
    assert "Stopped after 5 CPU seconds." in telling.as_html(report)


def test_the_same_error_is_said_once():
    text = telling.as_text(evaluate("softmax", KERNELS["nothing"]))
    assert text.count("is a `return` missing?") == 1


def test_a_ready_made_function_is_not_told_what_it_got_right():
    import torch

    report = evaluate("softmax", lambda x, axis: torch.softmax(torch.from_numpy(np.array(x)), axis).numpy())
    for told in (telling.as_text(report), telling.as_html(report)):
        assert report.aspects[0].title not in told
        assert "hint" not in told

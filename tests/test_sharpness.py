"""Every known mistake is rejected and named, and costs the same on every draw; every right variant is accepted.

5 seeds here, 50 in `make sharpness`.
"""

import dataclasses

import pytest

from autograder import catalog
from autograder.case import Case
from autograder.checking import edited
from autograder.judging import evaluate
from tests.sharpness import measure, right_variants, table

SEEDS = range(5)


@pytest.mark.parametrize("seeds", [(), pytest.param(SEEDS, marks=pytest.mark.slow)], ids=["visible", "hidden"])
@pytest.mark.parametrize("name", catalog.kernels())
def test_no_gap(name, seeds):
    row = measure(name, right_variants().get(name, []), seeds)
    assert not row.gaps
    assert row.mistakes >= 4
    assert row.variants >= 4


def test_variants_are_of_kernels_that_exist():
    assert right_variants().keys() <= catalog.kernels().keys()


def test_a_check_that_misses_a_mistake_has_a_gap(monkeypatch):
    check = catalog.check_of("softmax")
    monkeypatch.setattr(check, "aspects", check.aspects[:1])  # without the cases with large scores
    row = measure("softmax", [], [])
    assert "softmax: the mistake softmax-overflow is accepted" in row.gaps
    assert row.rejected < row.mistakes


def test_a_mistake_whose_mark_hangs_on_the_draw_has_a_gap(monkeypatch):
    check = catalog.check_of("softmax")
    large = next(aspect for aspect in check.aspects if aspect.title == "scores as large as 10,000")

    def sometimes(draw):
        return large.cases(draw) if draw.hidden else [Case("small scores", {"x": draw.normal(3, 4)})]

    aspects = [dataclasses.replace(aspect, cases=sometimes) if aspect is large else aspect for aspect in check.aspects]
    monkeypatch.setattr(check, "aspects", aspects)
    row = measure("softmax", [], range(2))
    gap = "softmax: the mistake softmax-plain-formula fails in 'scores as large as 10,000' on 2 of 3 draws"
    assert gap in row.gaps
    assert row.steady == row.mistakes - len(row.gaps)


def test_a_check_that_rejects_a_right_variant_has_a_gap():
    def wrong(x, axis=-1):
        return x

    row = measure("softmax", [wrong], [])
    assert row.accepted == 0
    assert any("the right variant wrong is rejected" in gap for gap in row.gaps)


def test_table_has_a_line_for_each_kernel():
    rows = [measure("softmax", [], [])]
    assert [line.split()[0] for line in table(rows).splitlines()] == ["kernel", "softmax"]


@pytest.mark.parametrize("name", catalog.kernels())
def test_stub_earns_nothing(name):
    def stub(*args, **kwargs):
        raise NotImplementedError

    report = evaluate(name, stub)
    assert (report.passed, report.score) == (False, 0)


@pytest.mark.parametrize("name", catalog.kernels())
def test_a_copy_of_the_reference_earns_every_point(name):
    report = evaluate(name, edited(catalog.check_of(name).reference), seed=123)
    assert (report.passed, report.score) == (True, report.points)
    assert report.points == sum(aspect.points for aspect in catalog.check_of(name).aspects) > 0

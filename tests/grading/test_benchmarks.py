"""Small versions of what `benchmarks/grading.py` measures: what must be true of marks and memory at any speed.

That of the kills is `test_chaos.py`.
"""

import pytest

from autograder import catalog
from benchmarks import grading

pytestmark = pytest.mark.slow
STEM = "getting_started"


def test_three_ways_give_the_same_marks(tmp_path):
    found = grading.compare_class(tmp_path, STEM, students=6, sample=3)
    stock, ours, direct = (marks for _, _, marks in found.values())
    assert len(direct) == 6
    assert ours == direct
    assert stock == {student: direct[student] for student in stock}
    assert len(stock) == 3
    assert len({score for _, score in direct.values()}) > 1


def test_the_cost_of_a_submission_is_split(tmp_path):
    own, beyond = grading.overhead(tmp_path, STEM, students=3)
    assert own > 0
    assert beyond > 0


def test_the_parent_s_memory_stays_flat(tmp_path):
    (_, few), (_, many) = grading.growth(tmp_path, STEM, [2, 16])
    assert 0 < many.peak_mb < few.peak_mb + 30


def test_a_busy_machine_fails_nobody(tmp_path):
    calm, loaded = grading.load(tmp_path, STEM, students=4, burners=4)
    assert calm == loaded
    best = max(result.score for result in loaded.values())
    assert best == sum(check.points for check in catalog.checks(STEM).values())

"""In the grader a kernel that makes the matrix of all pairs loses its points also where it forges what is counted."""

import json

import pytest

from autograder import notebooks
from autograder.grading.grade import close_workers, grade_submission

pytestmark = pytest.mark.slow
STEM, NAME, ASPECT = "sparse_attention", "local_attention", "work in proportion to the window"
FORGED = """
from autograder import work

work.Counter.__torch_dispatch__ = lambda self, function, types, args=(), kwargs=None: function(*args, **(kwargs or {}))


def local_attention(query, key, value, window, causal=False):
    distance = torch.arange(query.shape[-2])[:, None] - torch.arange(query.shape[-2])
    near = (distance >= 0) & (distance < window) if causal else distance.abs() < window
    return scaled_dot_product_attention(query, key, value, near)
"""


@pytest.fixture
def forged():
    notebook = json.loads((notebooks.ROOT / "solutions" / STEM / f"{STEM}.ipynb").read_text(encoding="utf-8"))
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == f"kernel-{NAME}"]
    cell["source"] = FORGED
    return json.dumps(notebook).encode()


def test_the_memory_decides_where_counts_are_forged(forged):
    try:
        result = grade_submission(forged, STEM, seed=1)
    finally:
        close_workers()
    marks = {mark.kernel: mark for mark in result.kernels}
    assert all(mark.score == mark.points for name, mark in marks.items() if name != NAME)
    lost = [aspect.title for aspect in marks[NAME].aspects if not aspect.passed]
    assert lost == [ASPECT]

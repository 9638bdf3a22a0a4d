"""Nearly the same code is shown whatever its names; what everybody writes, and what the course knows, is not."""

import inspect

from autograder.course.likeness import TOKENS, alike, tokens_of
from autograder.grading.results import KernelMark, SubmissionResult
from autograder.reference import attention_layer

ODD = """def similarity(query, key):
    \"\"\"Scores.\"\"\"
    # {comment}
    {a} = query.shape[-1]
    {b} = np.zeros((query.shape[0], key.shape[0]))
    for {i} in range(query.shape[0]):
        for {j} in range(key.shape[0]):
            for {k} in range({a}):
                {b}[{i}, {j}] += query[{i}, {k}] * key[{j}, {k}]
    {b} = {b} / np.sqrt({a})
    {b} = np.where(np.isnan({b}), 0.0, {b})
    return {b}
"""
OWN = [
    "def similarity(query, key):\n" + "".join(f"    x{n} = query[{n}:] {sign} {number}\n" for n in range(20))
    for number, sign in enumerate("+-*/@")
]


def odd(**names):
    return ODD.format(**dict(zip("abijk", "abijk", strict=True), comment="mine") | names)


def class_of(*sources):
    return [
        (
            f"s{number:02}",
            SubmissionResult("attention_layer", (KernelMark("similarity", True, 1, 1, "", (), source=s),)),
        )
        for number, s in enumerate(sources)
    ]


def test_a_copy_under_other_names_is_found():
    renamed = odd(a="width", b="scores", i="row", j="col", k="d", comment="all my own work")
    (pair,) = alike(class_of(odd(), *OWN, renamed))
    assert (pair.one, pair.other, pair.share, pair.kernels) == ("s00", "s06", 1.0, ("similarity",))
    assert pair.tokens > TOKENS


def test_a_line_more_is_still_found_and_another_answer_is_not():
    (pair,) = alike(class_of(odd(), *OWN, odd().replace("    return", "    b = b + 0\n    return")))
    assert 0.9 < pair.share < 1


def test_what_many_share_says_nothing():
    assert alike(class_of(*[odd()] * 5, *OWN)) == []


def test_the_courses_own_answer_says_nothing():
    source = inspect.getsource(attention_layer.attention_backward)
    marks = (KernelMark("attention_backward", True, 1, 1, "", (), source=source),)
    assert len(tokens_of(source, "attention_backward")) > TOKENS
    assert alike([(name, SubmissionResult("attention_layer", marks)) for name in "ab"]) == []


def test_what_is_not_written_or_not_python_has_no_tokens():
    assert tokens_of("def softmax(x):\n    raise NotImplementedError()\n", "softmax") == ()
    assert tokens_of("def softmax(x:\n", "softmax") == ()
    assert tokens_of("", "softmax") == ()
    assert alike([]) == []


def test_an_answer_that_is_nested_too_deeply_stops_no_report():
    deep = "def similarity(query, key):\n    return " + " + ".join(["query"] * 2000)
    assert tokens_of(deep, "similarity") == ()
    assert alike(class_of(deep, deep)) == []

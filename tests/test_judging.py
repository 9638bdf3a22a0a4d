"""Verdicts, points, named mistakes, advice."""

import dataclasses
import pickle

import numpy as np
import pytest

from autograder import catalog, judging
from autograder.case import Case
from autograder.checking import Check, edited
from autograder.judging import draw_cases, evaluate, explain, judge, not_run
from autograder.probing import Fault, Outcome, run_probe
from autograder.reference import getting_started as reference

RIGHT = edited(reference.softmax)


def mistake(id):
    return next(m.kernel for m in catalog.check_of("softmax").mistakes if m.id == id)


def test_a_right_kernel_passes_with_all_points():
    report = evaluate("softmax", RIGHT)
    assert (report.passed, report.score, report.mistake, report.advice) == (True, 5, None, ())
    assert all(aspect.passed for aspect in report.aspects)


def test_part_of_the_points_for_part_of_the_work():
    report = evaluate("softmax", mistake("softmax-all-masked-nan"))
    assert not report.passed
    assert report.mistake == "softmax-all-masked-nan"
    assert [aspect.score for aspect in report.aspects] == [2, 1, 1, 0]


def test_no_points_without_the_basic_case():
    def right_but_for_two_axes(x, axis=-1):
        return RIGHT(x, axis) if x.ndim != 2 else x

    report = evaluate("softmax", right_but_for_two_axes)
    assert [aspect.passed for aspect in report.aspects][:2] == [False, True]
    assert report.score == 0


def test_hidden_cases_follow_from_their_seed():
    def inputs(seed):
        return [case.inputs["x"].tobytes() for _, case in draw_cases("softmax", seed)]

    assert inputs(7) == inputs(7)
    assert inputs(7) != inputs(8)
    assert inputs(0) != inputs(None)


def test_hidden_cases_reject_what_remembers_the_visible_ones():
    drawn = [case for _, case in draw_cases("softmax") if not case.refused]
    answers = {case.inputs["x"].tobytes(): RIGHT(**case.inputs) for case in drawn}

    def by_heart(x, axis=-1):
        return answers.get(x.tobytes(), x)

    assert evaluate("softmax", by_heart).score >= 2
    assert evaluate("softmax", by_heart, seed=1).score == 0


def test_evaluate_changes_nothing_and_shows_nothing(capsys):
    assert evaluate("softmax", RIGHT, 3) == evaluate("softmax", RIGHT, 3)
    assert capsys.readouterr() == ("", "")


def test_a_negative_seed_and_an_uncallable_kernel_are_refused():
    with pytest.raises(ValueError, match="seed is -1; it must be 0 or more"):
        evaluate("softmax", RIGHT, seed=-1)
    with pytest.raises(TypeError, match="needs the function itself"):
        evaluate("softmax", np.ones(3))


def test_an_unknown_kernel_names_the_nearest():
    with pytest.raises(catalog.UnknownKernel, match=r"no kernel 'sofmax'.*Did you mean: softmax"):
        evaluate("sofmax", RIGHT)


def test_the_reference_is_told_to_be_the_reference():
    assert evaluate("softmax", reference.softmax).is_reference
    assert evaluate("softmax", lambda x, axis: reference.softmax(x, axis)).is_reference
    assert not evaluate("softmax", RIGHT).is_reference


def test_a_ready_made_function_earns_nothing():
    import torch

    report = evaluate("softmax", lambda x, axis: torch.softmax(torch.from_numpy(np.array(x)), axis).numpy())
    assert report.ready_made == ("torch.softmax",)
    assert (report.passed, report.score) == (False, 0)


def test_nothing_compared_is_not_a_pass():
    with pytest.raises(ValueError, match=r"0 outcomes for \d+ cases; each case needs one"):
        judge("softmax", 1, [])
    with pytest.raises(ValueError, match=r"1 outcomes for \d+ cases"):
        judge("softmax", 1, [Outcome()])
    report = judge("softmax", 1, [Outcome()] * len(draw_cases("softmax", 1)))
    assert (report.passed, report.score) == (False, 0)


def test_a_check_without_cases_is_not_a_pass(monkeypatch):
    monkeypatch.setattr(catalog.check_of("softmax"), "aspects", [])
    with pytest.raises(ValueError, match="0 outcomes for 0 cases"):
        evaluate("softmax", RIGHT)


def test_the_exams_of_all_kernels_are_kept():
    assert len(catalog.kernels()) <= judging.EXAMS


def test_trusted_kernels_run_once_on_each_case(monkeypatch):
    runs = []
    monkeypatch.setattr(judging, "run_probe", lambda *args: runs.append(args[2]) or run_probe(*args))
    for kernel in (RIGHT, lambda x, axis: x, lambda x, axis: x):
        evaluate("softmax", kernel, seed=987)
    assert runs.count(reference.softmax) == len(draw_cases("softmax", 987))


def test_an_aspect_without_cases_is_not_a_pass(monkeypatch):
    check = catalog.check_of("softmax")
    empty = dataclasses.replace(check.aspects[1], cases=lambda draw: [])
    monkeypatch.setattr(check, "aspects", [check.aspects[0], empty])
    report = evaluate("softmax", RIGHT)
    assert [aspect.passed for aspect in report.aspects] == [True, False]
    assert not report.passed


def test_a_kernel_that_could_not_run_has_no_points_and_a_reason():
    report = not_run("softmax", Fault("missing", "Your notebook defines no softmax."))
    assert (report.passed, report.score, report.points) == (False, 0, 5)
    assert report.findings[0].text == "Your notebook defines no softmax."


def test_hidden_reports_carry_no_array():
    report = evaluate("softmax", lambda x, axis: x * 0, seed=4)
    assert all(finding.target is None and finding.given is None for finding in report.findings)
    visible = evaluate("softmax", lambda x, axis: x * 0)
    assert visible.findings[0].target is not None


def test_a_report_can_be_sent_between_processes():
    report = evaluate("softmax", RIGHT, 1)
    assert pickle.loads(pickle.dumps(report)) == report


def test_an_error_in_the_reference_is_not_the_student_s(monkeypatch):
    check = catalog.check_of("softmax")
    bad = dataclasses.replace(check.aspects[0], cases=lambda draw: [Case("bad axis", {"x": np.ones(3), "axis": 5})])
    monkeypatch.setattr(check, "aspects", [bad])
    with pytest.raises(AssertionError, match="The reference failed on 'bad axis'"):
        evaluate("softmax", RIGHT)


def test_two_mistakes_that_look_alike_are_both_named(monkeypatch):
    check = catalog.check_of("softmax")
    first = next(m for m in check.mistakes if m.id == "softmax-log")
    twin = dataclasses.replace(first, id="twin", hint="Or this.")
    monkeypatch.setattr(check, "mistakes", [*check.mistakes, twin])
    report = evaluate("softmax", first.kernel)
    assert report.mistakes == ("softmax-log", "twin")
    assert report.advice == (first.hint, "Or this.")


def test_of_two_mistakes_at_once_one_is_named_and_none_that_the_right_cases_rule_out():
    def plain_and_uniform(x, axis=-1):
        weights = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
        return np.where(np.isneginf(x).all(axis=axis, keepdims=True), 1 / x.shape[axis], weights).astype(x.dtype)

    report = evaluate("softmax", plain_and_uniform)
    assert "softmax-overflow" in report.mistakes  # the first wrong case shows it
    assert "softmax-total-of-all-plain" not in report.mistakes  # NaN there too, but wrong where this kernel is right


PLACEHOLDER = '''
import numpy as np
def softmax(x, axis=-1):
    """Weights."""
    if x.ndim == 0:
        raise ValueError("no axis")
    weights = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
    # YOUR CODE HERE
    raise NotImplementedError()
'''


def test_a_placeholder_below_an_answer_is_named_with_its_line():
    def stub(x, axis):
        raise NotImplementedError

    report = explain(evaluate("softmax", stub), PLACEHOLDER, {})
    assert report.advice == ("Your answer is followed by the placeholder in line 9: delete that line.",)
    untouched = PLACEHOLDER.replace("    weights = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)\n", "")
    assert explain(evaluate("softmax", stub), untouched, {}).advice == ()


def test_a_broken_part_is_named(monkeypatch):
    monkeypatch.setattr(catalog.check_of("softmax"), "uses", ("exponential",))
    report = evaluate("softmax", lambda x, axis: x)
    assert explain(report, None, {"exponential": False}).advice == (
        "It calls your `exponential`, which does not pass its own check yet: mend that first.",
    )
    assert explain(report, None, {"exponential": True}).advice == ()
    assert explain(report, None, {}).advice == ()


def test_an_edit_that_no_longer_fits_is_an_error():
    with pytest.raises(ValueError, match="'no such text' stands 0 times in the source; it must stand once"):
        edited(reference.softmax, ("no such text", ""))


def test_a_check_has_a_known_difficulty():
    with pytest.raises(ValueError, match="difficulty is 'hard'; it must be one of"):
        Check(reference.softmax, "hard", 5, ("hint",))


def test_every_check_is_complete():
    for name in catalog.kernels():
        check = catalog.check_of(name)
        assert check.name == name
        assert len(check.hints) >= 3
        assert check.minutes > 0
        assert all(aspect.points > 0 for aspect in check.aspects)
        ids = [m.id for m in check.mistakes]
        assert len(ids) == len(set(ids))
        assert all(m.hint.rstrip(" )").endswith((".", "?", "!")) for m in check.mistakes)
        assert len({aspect.title for aspect in check.aspects}) == len(check.aspects)


def test_a_kernel_s_name_is_unique_in_the_course(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text("def softmax(kernel, case): ...\n")
    (tmp_path / "two.py").write_text("\n\ndef softmax(kernel, case): ...\n")
    monkeypatch.setattr(catalog, "PROBES", tmp_path)
    with pytest.raises(ValueError, match=r"two.py:3: kernel 'softmax' is also in chapter 'one'"):
        catalog.kernels.__wrapped__()


def test_arguments_that_the_contract_refuses_must_raise():
    def clamped(x, axis=-1):
        return RIGHT(x, max(-x.ndim, min(axis, x.ndim - 1)))

    report = evaluate("softmax", clamped)
    wrong = [finding for finding in report.findings if not finding.passed]
    assert [finding.title for finding in wrong] == [
        "an axis that is not there",
        "an axis that is not there, from the end",
    ]
    assert "keep the input checks" in wrong[0].text
    assert evaluate("softmax", RIGHT, 3).passed


def test_a_placeholder_refuses_nothing():
    def stub(x, axis=-1):
        raise NotImplementedError

    assert not any(finding.passed for finding in evaluate("softmax", stub).findings)


def test_a_kernel_that_keeps_something_between_calls_is_caught():
    buffers = {}

    def same_memory(x, axis=-1):
        weights = buffers.setdefault((x.shape, x.dtype), np.empty_like(x))
        weights[...] = RIGHT(x, axis)
        return weights

    report = evaluate("softmax", same_memory)
    assert [finding.title for finding in report.findings if not finding.passed] == ["several calls"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda torch: np.seterr(all="raise"),
        lambda torch: torch.set_grad_enabled(False),
        lambda torch: torch.set_default_dtype(torch.float64),
        lambda torch: setattr(np, "isclose", lambda given, *rest, **options: np.ones(np.shape(given), bool)),
        lambda torch: setattr(torch, "softmax", lambda scores, dim: scores),
        lambda torch: np.random.seed(0),
        lambda torch: torch.manual_seed(0),
    ],
)
def test_what_a_kernel_does_to_the_process_changes_no_verdict_and_does_not_stay(spoil):
    import torch

    def settings():
        states = np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()
        return np.geterr(), torch.is_grad_enabled(), torch.get_default_dtype(), np.isclose, torch.softmax, states

    def attend(query, key):
        spoil(torch)
        return query @ key.mT

    before = settings()
    assert evaluate("attention_weights", attend).score == 0
    assert evaluate("attention_weights", attend, 1) == evaluate("attention_weights", attend, 1)
    assert settings() == before


def test_settings_of_the_notebook_change_no_verdict():
    import torch

    right = edited(catalog.check_of("attention_weights").reference)
    with torch.no_grad(), np.errstate(all="raise"):
        assert evaluate("softmax", RIGHT).passed
        assert evaluate("attention_weights", right).passed
        detached = evaluate("attention_weights", lambda query, key: right(query.detach(), key.detach()))
    assert detached.mistake == "attn-softmax-detached"


@pytest.mark.parametrize("reach", ["aten", "overload", "builtin", "getattr", "partial"])
def test_a_fused_operator_is_seen_under_any_name(reach):
    import functools

    import torch

    fused = torch.nn.functional.scaled_dot_product_attention
    call = {
        "aten": torch.ops.aten.scaled_dot_product_attention,
        "overload": torch.ops.aten.scaled_dot_product_attention.default,
        "builtin": torch._C._nn.scaled_dot_product_attention,
        "getattr": getattr(torch.nn.functional, "scaled_dot_" + "product_attention"),
        "partial": functools.partial(fused),
    }[reach]
    report = evaluate("scaled_dot_product_attention", lambda q, k, v, attn_mask=None: call(q, k, v, attn_mask))
    assert report.ready_made == ("torch.nn.functional.scaled_dot_product_attention",)
    assert report.score == 0


def test_gradients_by_autograd_are_no_backward_pass():
    import torch

    attention = catalog.check_of("scaled_dot_product_attention").reference

    def backward(grad_output, query, key, value, attn_mask=None):
        given = [torch.from_numpy(array.copy()).requires_grad_() for array in (query, key, value)]
        mask = None if attn_mask is None else torch.from_numpy(attn_mask)
        attention(*given, mask).backward(torch.from_numpy(grad_output.copy()))
        return tuple(tensor.grad.numpy() for tensor in given)

    report = evaluate("attention_backward", backward)
    assert report.ready_made == ("torch.autograd.backward",)
    assert report.score == 0

"""The untrusted side: what comes back from one run of a kernel, whatever the kernel does."""

import builtins
import contextlib
import cProfile
import dataclasses
import inspect
import io
import random
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from autograder import probing
from autograder.case import Case
from autograder.probing import call_numpy, call_torch, run_probe

MATRIX = np.arange(6.0).reshape(2, 3)
CASE = Case("a matrix", {"x": MATRIX})
SOFTMAX_CASE = Case("a matrix", {"x": MATRIX, "axis": -1})


def test_a_torch_kernel_gives_outputs_arguments_and_gradients():
    case = Case("a product", {"a": MATRIX, "b": MATRIX + 1}, gradient=("a",))
    arrays = call_torch(lambda a, b: a * b, case, ("product",))
    assert list(arrays) == ["product", "a_after", "b_after", "grad_a"]
    np.testing.assert_array_equal(arrays["product"], MATRIX * (MATRIX + 1))
    weights = np.cos(np.arange(1.0, 7.0)).reshape(2, 3)
    np.testing.assert_allclose(arrays["grad_a"], weights * (MATRIX + 1), rtol=1e-15)


def test_a_gradient_that_is_cut_off_is_left_out():
    case = Case("a product", {"a": MATRIX, "b": MATRIX}, gradient=("a", "b"))
    assert set(call_torch(lambda a, b: a * b.detach(), case, ("product",))) == {
        "product",
        "a_after",
        "b_after",
        "grad_a",
    }
    assert "grad_a" not in call_torch(lambda a, b: (a * b).detach(), case, ("product",))


def test_several_outputs_have_their_names():
    arrays = call_numpy(lambda x: (x.sum(0), x.sum(1)), CASE, ("columns", "rows"))
    assert (arrays["columns"].shape, arrays["rows"].shape) == ((3,), (2,))


def test_inputs_are_fresh_copies():
    def spoil(x):
        x[:] = 0
        return x

    arrays = call_numpy(spoil, CASE, ("out",))
    assert arrays["x_after"].sum() == 0
    assert MATRIX.sum() == 15
    arrays = call_torch(spoil, CASE, ("out",))
    assert arrays["x_after"].sum() == 0
    assert MATRIX.sum() == 15


@pytest.mark.parametrize("call", [call_numpy, call_torch])
def test_dtype_and_layout_are_those_of_the_case(call):
    seen = {}

    def look(x):
        seen["dtype"] = str(x.dtype)
        seen["contiguous"] = x.is_contiguous() if isinstance(x, torch.Tensor) else x.flags.c_contiguous
        return x * 1

    arrays = call(look, Case("half", {"x": MATRIX}, dtype="float16", strided=True), ("out",))
    assert seen == {"dtype": seen["dtype"], "contiguous": False}
    assert seen["dtype"].endswith("float16")
    np.testing.assert_array_equal(arrays["out"], MATRIX.astype("float16"))


def test_integers_and_booleans_keep_their_kind_in_any_precision():
    case = Case("mixed", {"n": np.array([1, 2]), "flag": np.array([True])}, dtype="float16")
    arrays = call_torch(lambda n, flag: n, case, ("n",))
    assert (arrays["n"].dtype, arrays["flag_after"].dtype) == (np.int64, np.bool_)


def test_dicts_of_arrays_become_dicts_of_tensors():
    case = Case("weights", {"state": {"w": MATRIX, "layers": [MATRIX]}})
    arrays = call_torch(lambda state: state["w"] + state["layers"][0], case, ("sum",))
    np.testing.assert_array_equal(arrays["sum"], 2 * MATRIX)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "None (is a `return` missing?)"),
        ([1.0], "a list of length 1"),
        (torch.ones(2), "a Tensor of shape (2,) and dtype torch.float32"),
        ("text", "a str of length 4"),
        (np.array(["text"]), "a ndarray of shape (1,)"),
        (np.array([None]), "a ndarray of shape (1,)"),
    ],
)
def test_what_is_not_an_array_is_named(returned, words):
    outcome = run_probe("getting_started", "softmax", lambda x, axis: returned, SOFTMAX_CASE)
    assert outcome.fault.kind == "unusable"
    assert words in outcome.fault.text


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (Silent(), "Silent"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_an_exception_of_any_kind_is_a_fault(raised, text):
    def broken(x, axis):
        raise raised

    fault = run_probe("getting_started", "softmax", broken, SOFTMAX_CASE).fault
    assert (fault.kind, fault.text) == ("raised", text)


def test_an_interrupt_from_the_keyboard_goes_on_and_leaves_no_trace():
    def interrupted(x, axis):
        raise KeyboardInterrupt

    before = sys.stdout, sys.getprofile()
    with pytest.raises(KeyboardInterrupt):
        run_probe("getting_started", "softmax", interrupted, Case("", SOFTMAX_CASE.inputs, watch=("torch.softmax",)))
    assert (sys.stdout, sys.getprofile()) == before


def test_a_flood_of_prints_and_a_closed_output_are_borne(capfd):
    def flood(x, axis):
        for _ in range(1000):
            print("x" * 10_000)
        sys.stdout.close()
        sys.stdout = sys.stderr = None
        return x

    outcome = run_probe("getting_started", "softmax", flood, SOFTMAX_CASE)
    assert outcome.fault is None
    assert outcome.printed == "x" * probing.PRINT_LIMIT
    print("still here")
    assert capfd.readouterr() == ("still here\n", "")


def test_an_unsupported_dtype_is_no_placeholder():
    def unsupported(x, axis):
        raise NotImplementedError("\"bitwise_or_cpu\" not implemented for 'Double'")

    def stub(x, axis):
        raise NotImplementedError()

    assert not run_probe("getting_started", "softmax", unsupported, SOFTMAX_CASE).fault.is_placeholder
    assert run_probe("getting_started", "softmax", stub, SOFTMAX_CASE).fault.is_placeholder


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("wrap", [np.asmatrix, np.ma.masked_invalid], ids=["matrix", "masked array"])
def test_a_subclass_of_arrays_is_named(wrap):
    with pytest.raises(probing.Unusable, match="should be a NumPy array of numbers; the kernel returned a [mM]"):
        call_numpy(lambda x: wrap(x), CASE, ("out",))


def test_options_are_handed_over_as_inputs_are():
    case = Case("", {"x": MATRIX}, options={"mask": MATRIX > 1}, dtype="float32")
    seen = {}

    def look(x, mask=None):
        seen["mask"] = mask
        return x

    call_torch(look, case, ("out",))
    assert seen["mask"].dtype == torch.bool
    call_numpy(look, case, ("out",))
    assert isinstance(seen["mask"], np.ndarray)


def test_an_argument_that_is_made_to_ask_for_gradients_is_named():
    with pytest.raises(probing.Unusable, match="changed `requires_grad` of its argument `x`"):
        call_torch(lambda x: x.requires_grad_() * 2, CASE, ("out",))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: x.to(torch.bfloat16), "torch.bfloat16"),
        (lambda x: x.to_sparse(), "torch.sparse_coo"),
        (lambda x: x.numpy(), "should be a torch.Tensor; the kernel returned a ndarray"),
    ],
)
def test_tensors_of_other_kinds_are_named(returned, words):
    with pytest.raises(probing.Unusable, match=words.replace("(", r"\(")):
        call_torch(returned, CASE, ("out",))


def test_a_wrong_number_of_outputs_is_named():
    with pytest.raises(probing.Unusable, match="should return 2 values, a, b; it returned 3 values"):
        call_numpy(lambda x: (x, x, x), CASE, ("a", "b"))


def test_an_exception_has_its_line_in_the_kernel():
    def broken(x, axis):
        return np.linalg.inv(x)

    fault = run_probe("getting_started", "softmax", broken, SOFTMAX_CASE).fault
    assert (fault.kind, fault.exception) == ("raised", "LinAlgError")
    assert fault.line == inspect.getsourcelines(broken)[1] + 1


def test_prints_and_warnings_are_kept_back_and_cost_nothing(capfd):
    def noisy(x, axis):
        print("here")
        print("there", file=sys.stderr)
        return np.log(x - x)

    outcome = run_probe("getting_started", "softmax", noisy, SOFTMAX_CASE)
    assert outcome.fault is None
    assert outcome.printed == "here\nthere\n"
    assert capfd.readouterr() == ("", "")


def test_watched_functions_are_seen_however_they_are_reached():
    def through_helper(x, axis):
        return (lambda f: f(torch.from_numpy(x), axis))(torch.softmax).numpy()

    case = Case("", SOFTMAX_CASE.inputs, watch=("torch.softmax", "torch.nn.MultiheadAttention", "no.such.name"))
    assert run_probe("getting_started", "softmax", through_helper, case).watched == ("torch.softmax",)
    assert run_probe("getting_started", "softmax", lambda x, axis: x, case).watched == ()


def test_a_profiler_that_runs_already_goes_on():
    case = Case("", SOFTMAX_CASE.inputs, watch=("torch.softmax",))
    profiler = cProfile.Profile()
    with profiler:
        assert run_probe("getting_started", "softmax", lambda x, axis: x, case).fault is None
        sorted([])
    profiler.create_stats()
    assert any("sorted" in function for _, _, function in profiler.stats)


def test_what_a_kernel_replaces_in_a_module_is_put_back():
    exp, log = np.exp, np.log

    def patching(x, axis):
        np.exp = None
        del np.log
        return x

    assert run_probe("getting_started", "softmax", patching, SOFTMAX_CASE).fault is None
    assert (np.exp, np.log) == (exp, log)


def test_in_the_sandbox_nothing_is_printed_and_each_case_finds_the_random_generators_alike():
    texts = []

    class Costly:
        def __str__(self):
            texts.append("made")
            return "text"

    def noisy(x, axis):
        print(Costly(), Costly(), sep="-")
        print(Costly(), file=sys.stderr, flush=True)
        kept = io.StringIO()
        print("kept", file=kept)
        with contextlib.redirect_stdout(kept):
            print("too")
        assert kept.getvalue() == "kept\ntoo\n"
        return np.append(np.random.random(3), [random.random(), torch.rand(1).item()])

    before = builtins.print
    one, other = (run_probe("getting_started", "softmax", noisy, SOFTMAX_CASE, sandboxed=True) for _ in range(2))
    assert one.fault is None
    np.testing.assert_array_equal(one.arrays["weights"], other.arrays["weights"])
    assert (texts, one.printed, builtins.print) == ([], "", before)
    assert len(run_probe("getting_started", "softmax", noisy, SOFTMAX_CASE).printed.split("text")) == 4


def test_the_line_of_an_error_is_told_with_and_without_a_traceback():
    space = {}
    exec(compile("def softmax(x, axis=-1):\n    y = x\n    return y.no_such()", "<cell>", "exec"), space)
    for sandboxed in (False, True):
        fault = run_probe("getting_started", "softmax", space["softmax"], SOFTMAX_CASE, sandboxed=sandboxed).fault
        assert (fault.exception, fault.line, bool(fault.details)) == ("AttributeError", 3, not sandboxed)


def test_work_is_counted_where_it_is_asked_for():
    case = Case("", {"x": MATRIX}, count_work=True)
    arrays = call_torch(lambda x: (x[:, None] * x[None]).sum(-1), case, ("out",))
    assert arrays["work_largest"] == 2 * 2 * 3
    assert arrays["work_multiply_adds"] == 2 * 2 * 3 + 2 * 2 * 3  # the products, and their sums


def test_a_kernel_takes_no_more_memory_than_its_case_gives():
    before = resource.getrlimit(resource.RLIMIT_AS)
    case = dataclasses.replace(SOFTMAX_CASE, memory_mb=100)

    def large(x, axis):
        return np.zeros(10**8)[: x.size].reshape(x.shape)

    def small(x, axis):
        return np.zeros(10**6)[: x.size].reshape(x.shape)

    fault = run_probe("getting_started", "softmax", large, case).fault
    assert (fault.kind, "Unable to allocate" in fault.text) == ("raised", True)
    assert run_probe("getting_started", "softmax", small, case).fault is None
    assert run_probe("getting_started", "softmax", large, SOFTMAX_CASE).fault is None
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_numpy_kernels_are_checked_without_torch():
    code = (
        "import sys, numpy, autograder\n"
        "assert 'numpy' in sys.modules and 'torch' not in sys.modules\n"
        "report = autograder.evaluate('softmax', lambda x, axis: x)\n"
        "assert not report.passed and 'torch' not in sys.modules, 'torch was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_neither_numpy_nor_torch():
    code = "import sys, autograder; assert not {'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""How the kernels of "The multilayer perceptron" are exercised."""

from autograder.probing import Unusable, call_numpy, describe


def linear_forward(kernel, case):
    return call_numpy(kernel, case, outputs=("output",))


def linear_backward(kernel, case):
    return _only(call_numpy(kernel, case, outputs=("grad_X", "grad_W", "grad_b")), case)


def relu_forward(kernel, case):
    return call_numpy(kernel, case, outputs=("output",))


def relu_backward(kernel, case):
    return call_numpy(kernel, case, outputs=("grad_Z",))


def softmax_cross_entropy(kernel, case):
    return _only(_loss_of_any_precision(call_numpy(kernel, case, outputs=("loss", "grad_logits")), case), case)


def sgd_step(kernel, case):
    return call_numpy(kernel, case, outputs=("new_parameter",))


def train_epoch(kernel, case):
    """Hands the first four arrays over as one tuple, and takes the four that come back out of theirs."""

    def with_flat_parameters(W_1, b_1, W_2, b_2, *others):
        returned = kernel((W_1, b_1, W_2, b_2), *others)
        parameters, loss = _pair(returned)
        return *parameters, loss

    arrays = call_numpy(with_flat_parameters, case, outputs=("W_1", "b_1", "W_2", "b_2", "loss"))
    return _only(_loss_of_any_precision(arrays, case), case)


def _pair(returned):
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        got = f"{len(returned)} values" if isinstance(returned, tuple | list) else describe(returned)
        raise Unusable(f"The kernel should return 2 values, the parameters and the loss; it returned {got}.")
    if not isinstance(returned[0], tuple | list) or len(returned[0]) != 4:
        got = f"{len(returned[0])} values" if isinstance(returned[0], tuple | list) else describe(returned[0])
        raise Unusable(f"The parameters should be four arrays, W_1, b_1, W_2 and b_2; the kernel returned {got}.")
    return returned


def _only(arrays, case):
    """All arrays, or the one that ``case.probe["only"]`` names, so that each earns its own points."""
    only = case.probe.get("only")
    return {name: array for name, array in arrays.items() if only in (None, name) or name.endswith("_after")}


def _loss_of_any_precision(arrays, case):
    """A loss may be a Python number too: only its value counts."""
    return arrays | {"loss": arrays["loss"].astype(case.dtype)}

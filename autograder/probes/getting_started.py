"""How the kernels of "Getting started" are exercised."""

from autograder.probing import call_numpy


def softmax(kernel, case):
    return call_numpy(kernel, case, outputs=("weights",))

"""How the kernels of "The recurrent encoder-decoder" are exercised."""

import numpy as np
import torch

from autograder.probing import call_torch


def rnn_cell(kernel, case):
    return call_torch(kernel, case, outputs=("new_h",))


def gru_cell(kernel, case):
    return call_torch(kernel, case, outputs=("new_h",))


def lstm_cell(kernel, case):
    return call_torch(kernel, case, outputs=("new_h", "new_c"))


def encode(kernel, case):
    """Reads with a cell of PyTorch's and the weights of the case; a GRU where these have the rows of three gates.

    Compares the states and the last one, or what ``case.probe["only"]`` names, so that each earns its own points.
    """

    def read(X, lengths, h_0, *weights):
        cell = torch.gru_cell if len(weights[0]) == 3 * h_0.shape[-1] else torch.rnn_tanh_cell
        return kernel(lambda x, h: cell(x, h, *weights), X, lengths, h_0)

    arrays = call_torch(read, case, outputs=("states", "last"))
    only = case.probe.get("only")
    return {name: array for name, array in arrays.items() if only in (None, name) or name.endswith("_after")}


def shift_right(kernel, case):
    return call_torch(kernel, case, outputs=("decoder_input",))


def masked_cross_entropy(kernel, case):
    return call_torch(kernel, case, outputs=("loss",))


def greedy_decode(kernel, case):
    """Decodes with a step that reads its logits from a table: by sentence, number of the step, and token before.

    The number of the step is the state. Also counts the steps that the kernel takes.
    """
    taken = []

    def decode(table, start, *rest):
        taken.clear()

        def step(tokens, number):
            if tokens.shape != start.shape:
                raise ValueError(
                    f"step was given tokens of shape {tuple(tokens.shape)}; "
                    f"it takes one for each sentence, shape {tuple(start.shape)}."
                )
            taken.append(number)
            return table[torch.arange(len(start)), number, tokens], number + 1

        return kernel(step, 0, start, *rest)

    arrays = call_torch(decode, case, outputs=("tokens",))
    return arrays | {"number_of_steps": np.array(len(taken))}

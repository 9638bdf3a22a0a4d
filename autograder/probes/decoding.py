"""How the kernels of "Decoding" are exercised."""

import numpy as np
import torch

from autograder.probing import Unusable, call_torch, describe


def teacher_forcing_batch(kernel, case):
    """Also looks at the lists that the kernel was given: it must leave them alone."""

    def make(sentences, *rest):
        given = [list(sentence) for sentence in sentences]
        returned = kernel(sentences, *rest)
        if sentences != given:
            raise Unusable("The kernel changed the sentences that it was given. Make new lists.")
        return returned

    return call_torch(make, case, outputs=("decoder_input", "target", "mask"))


def scheduled_sampling(kernel, case):
    return call_torch(kernel, case, outputs=("mixed",))


def _language_model(bias, influence):
    """A model of a whole prefix: the function ``next_log_probs``.

    ``influence[k, v]`` is what a token ``v`` adds to the logits ``k`` places after it; ``bias`` are logits for each
    place, the same for all rows ``(length, V)`` or for each row its own ``(B, length, V)``.
    """

    def next_log_probs(prefix):
        rows = f"({len(bias)}, length)" if bias.ndim == 3 else "(hypotheses, length)"
        if prefix.ndim != 2 or prefix.shape[1] < 1 or (bias.ndim == 3 and len(prefix) != len(bias)):
            raise ValueError(f"next_log_probs takes tokens of shape {rows}; it was given {tuple(prefix.shape)}.")
        length = prefix.shape[1]
        if length > bias.shape[-2]:
            raise ValueError(f"next_log_probs was given {length} tokens, which is more than max_length allows.")
        said = influence[torch.arange(length).flip(0), prefix]  # (rows, length, V)
        return torch.log_softmax(bias[..., length - 1, :] + said.sum(dim=1), dim=-1)

    return next_log_probs


def greedy_search(kernel, case):
    """Searches with a model made of the case's arrays, with biases for each sentence; counts the calls of the model."""
    lengths = []

    def search(bias, influence, *rest):
        lengths.clear()
        model = _language_model(bias, influence)

        def next_log_probs(prefix):
            lengths.append(prefix.shape[-1])
            return model(prefix)

        return kernel(next_log_probs, *rest)

    arrays = call_torch(search, case, outputs=("tokens", "log_probs"))
    return arrays | {"number_of_steps": np.array(len(lengths))}


def beam_search(kernel, case):
    """Searches with a model made of the case's arrays; takes a plain number for the score too."""

    def search(bias, influence, *rest):
        returned = kernel(_language_model(bias, influence), *rest)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise Unusable(f"The kernel should return tokens and score; it returned {describe(returned)}.")
        tokens, score = returned
        if isinstance(score, float):
            score = torch.tensor(score, dtype=bias.dtype)
        return tokens, score

    return call_torch(search, case, outputs=("tokens", "score"))


def nat_decode_by_length(kernel, case):
    """Emits from a table of logits by sentence, length, and place; counts how often the kernel asks."""
    asked = []

    def decode(length_logits, table, *rest):
        asked.clear()

        def emit(lengths):
            if lengths.shape != (len(table),) or lengths.is_floating_point():
                wanted = f"one whole number for each sentence, shape {(len(table),)}"
                raise ValueError(f"emit was given {describe(lengths)}; it takes {wanted}.")
            if lengths.min() < 0 or lengths.max() >= table.shape[1]:
                raise ValueError(f"emit was given a length that is not from 0 to {table.shape[1] - 1}.")
            asked.append(lengths)
            return table[torch.arange(len(table)), lengths, : lengths.max()]

        return kernel(length_logits, emit, *rest)

    arrays = call_torch(decode, case, outputs=("tokens",))
    return arrays | {"calls_of_emit": np.array(len(asked))}


def nat_decode_until_eos(kernel, case):
    return call_torch(kernel, case, outputs=("tokens",))


def length_predictor_loss(kernel, case):
    return call_torch(kernel, case, outputs=("loss",))

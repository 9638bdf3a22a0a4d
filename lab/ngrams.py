"""Language models that count: how often does a token come after the one, two, … tokens before it?"""

import torch
from torch import Tensor


def log_probs(text: Tensor, tokens: Tensor, order: int, vocab_size: int, weight: float = 2.0) -> Tensor:
    """Log-probabilities of tokens given the ``order - 1`` before each, from counts in a text.

    Parameters
    ----------
    text
        What is counted.
    tokens
        What is predicted: all but its first ``order - 1`` tokens.
    order
        1 looks at no token before (unigram), 2 at one (bigram), 3 at two (trigram).
    vocab_size
        How many tokens there are; to the power of ``order`` it must be less than 2 to the power of 63.
    weight
        Each distribution is mixed with that of the next lower order, as if ``weight`` more tokens had been seen that
        follow it; below all lies the uniform distribution. So nothing has probability 0.
    """
    probs = torch.full((len(tokens),), 1 / vocab_size, dtype=torch.float64)
    seen_before = torch.full((len(tokens) + 1,), len(text))  # how often the empty context comes
    for n in range(1, order + 1):
        seen = _counts(_pieces(text, n, vocab_size), _pieces(tokens, n, vocab_size))
        probs = (seen + weight * probs[-len(seen) :]) / (seen_before[: len(seen)] + weight)
        seen_before = seen
    return probs.log()


def _pieces(tokens: Tensor, n: int, vocab_size: int) -> Tensor:
    """One number for each ``n`` tokens in a row."""
    powers = vocab_size ** torch.arange(n - 1, -1, -1)
    return (tokens.unfold(0, n, 1) * powers).sum(-1)


def _counts(pieces: Tensor, asked: Tensor) -> Tensor:
    """How often each number that is asked for is among the pieces."""
    values, counts = pieces.unique(return_counts=True)
    places = torch.searchsorted(values, asked).clamp(max=len(values) - 1)
    return torch.where(values[places] == asked, counts[places], 0)

"""The models that look back: what kinds of positions they have, and how they are judged."""

import math

import pytest
import torch

from lab import looking_back
from lab.looking_back import Looker

torch.set_num_threads(1)


@torch.no_grad()
@pytest.mark.parametrize("kind", looking_back.KINDS)
def test_only_rotary_models_do_not_notice_where_a_sequence_begins(kind):
    torch.manual_seed(0)
    model = Looker(kind).double()
    symbols = looking_back.draw(4, 16, torch.Generator().manual_seed(0))
    moved = (model(symbols, 40) - model(symbols)).abs().max().item()
    assert moved < 1e-9 if kind.startswith("rotary") else moved > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("kind", looking_back.KINDS)
def test_no_place_sees_a_later_symbol(kind):
    torch.manual_seed(0)
    model = Looker(kind)
    symbols = looking_back.draw(4, 16, torch.Generator().manual_seed(0))
    other = symbols.clone()
    other[:, 9] = (other[:, 9] + 1) % looking_back.SYMBOLS
    assert (model(symbols) - model(other))[:, :9].abs().max() < 1e-5


def test_accuracy_is_that_of_each_place():
    def ideal(symbols, start):
        scores = torch.zeros(*symbols.shape, looking_back.SYMBOLS)
        scores[:, looking_back.BACK :].scatter_(-1, symbols[:, : -looking_back.BACK, None], 1.0)
        scores[:, 10] = 0
        scores[:, 10, 0] = 1.0  # always the same answer
        return scores

    judged = looking_back.accuracy(ideal, 20)
    assert all(math.isnan(share) for share in judged[: looking_back.BACK])
    assert judged[10] < 0.2
    assert {share for place, share in enumerate(judged) if place >= looking_back.BACK and place != 10} == {1.0}

"""The three forms of a reader."""

import pytest
import torch

from lab.readers import CELLS, MeanReader, PlaceReader, RecurrentReader

torch.set_num_threads(1)
READERS = {
    "mean": lambda: MeanReader(9, 3),
    "places": lambda: PlaceReader(9, 3, places=8),
    **{cell: (lambda cell=cell: RecurrentReader(cell, 9, 3)) for cell in CELLS},
}


@pytest.mark.parametrize("name", READERS)
def test_scores_are_one_row_for_each_sequence_of_any_length(name):
    model = READERS[name]()
    for length in (1, 5, 8):
        assert model(torch.randint(9, (4, length))).shape == (4, 3)


def test_only_the_mean_does_not_see_the_order():
    symbols = torch.tensor([[1, 2, 3, 4, 5]])
    for name, build in READERS.items():
        torch.manual_seed(0)
        model = build()
        assert torch.allclose(model(symbols), model(symbols.flip(1)), atol=1e-6) == (name == "mean")


def test_a_sequence_longer_than_the_places_is_refused_in_words():
    with pytest.raises(ValueError, match="has 9 symbols; there are inputs for 8"):
        READERS["places"]()(torch.zeros(2, 9, dtype=torch.long))


@pytest.mark.parametrize(("cell", "layer"), [("RNN", torch.nn.RNN), ("GRU", torch.nn.GRU), ("LSTM", torch.nn.LSTM)])
def test_the_last_state_is_that_of_pytorchs_layer(cell, layer):
    torch.manual_seed(0)
    model, X = RecurrentReader(cell, 9, 3), torch.randn(4, 6, 32)
    layer = layer(32, 32, batch_first=True)
    names = [name for name, _ in layer.named_parameters()]
    states, _ = torch.func.functional_call(layer, dict(zip(names, model.cell.parameters(), strict=True)), (X,))
    torch.testing.assert_close(model.last_state(X), states[:, -1])

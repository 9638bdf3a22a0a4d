"""Small networks that read a sequence of symbols and answer a question about it: three forms, one interface.

Each maps symbols ``(B, N)`` to scores ``(B, num_answers)``.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference import rnn_encoder_decoder as kernels

CELLS = {
    "RNN": (nn.RNNCell, kernels.rnn_cell),
    "GRU": (nn.GRUCell, kernels.gru_cell),
    "LSTM": (nn.LSTMCell, kernels.lstm_cell),
}


class MeanReader(nn.Module):
    """A multilayer perceptron on the mean of the symbols' embeddings: any length, no order."""

    def __init__(self, num_symbols: int, num_answers: int, width: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, width)
        self.answer = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, num_answers))

    def forward(self, symbols: Tensor) -> Tensor:
        return self.answer(self.embedding(symbols).mean(1))


class PlaceReader(nn.Module):
    """A multilayer perceptron with inputs of its own for each place, zeros where there is no symbol.

    Parameters
    ----------
    places
        How many places there are; a longer sequence cannot be read.
    """

    def __init__(self, num_symbols: int, num_answers: int, places: int, width: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, width)
        self.places = places
        self.answer = nn.Sequential(nn.Linear(places * width, width), nn.ReLU(), nn.Linear(width, num_answers))

    def forward(self, symbols: Tensor) -> Tensor:
        if symbols.shape[1] > self.places:
            raise ValueError(f"A sequence has {symbols.shape[1]} symbols; there are inputs for {self.places}.")
        X = self.embedding(symbols)
        return self.answer(F.pad(X, (0, 0, 0, self.places - X.shape[1])).flatten(1))


class RecurrentReader(nn.Module):
    """A recurrent cell that takes a step for each symbol, and a linear map of its last state.

    Parameters
    ----------
    cell
        "RNN", "GRU" or "LSTM"; the course's kernels compute it.
    """

    def __init__(self, cell: str, num_symbols: int, num_answers: int, width: int = 32):
        super().__init__()
        module, self.kernel = CELLS[cell]
        self.embedding = nn.Embedding(num_symbols, width)
        self.cell = module(width, width)  # holds the weights
        self.answer = nn.Linear(width, num_answers)

    def last_state(self, X: Tensor) -> Tensor:
        """The state after all inputs ``(B, N, width)``, read from zeros."""
        zeros = X.new_zeros(len(X), X.shape[-1])
        weights = tuple(self.cell.parameters())
        h, c = zeros, zeros
        for x in X.unbind(1):
            if self.kernel is kernels.lstm_cell:
                h, c = self.kernel(x, h, c, *weights)
            else:
                h = self.kernel(x, h, *weights)
        return h

    def forward(self, symbols: Tensor) -> Tensor:
        return self.answer(self.last_state(self.embedding(symbols)))

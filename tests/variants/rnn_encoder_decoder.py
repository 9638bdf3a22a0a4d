"""Right kernels of "The recurrent encoder-decoder" in other styles."""

import torch
from torch.nn import functional as F

# the three cells


def check_cell(x, h, W_ih, W_hh):
    rows = W_ih.shape[0]
    assert W_ih.shape == (rows, x.shape[-1])
    assert W_hh.shape == (rows, h.shape[-1])


def rnn_by_linear(x, h, W_ih, W_hh, b_ih, b_hh):
    return torch.tanh(F.linear(x, W_ih, b_ih) + F.linear(h, W_hh, b_hh))


def rnn_fused(x, h, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    return torch.tanh(torch.cat([x, h], dim=1) @ torch.cat([W_ih, W_hh], dim=1).T + (b_ih + b_hh))


def rnn_by_einsum(x, h, W_ih, W_hh, b_ih, b_hh):
    return (torch.einsum("bi,oi->bo", x, W_ih) + torch.einsum("bi,oi->bo", h, W_hh) + b_ih + b_hh).tanh()


def rnn_by_loops(x, h, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    rows = [torch.tanh(W_ih @ one + b_ih + W_hh @ state + b_hh) for one, state in zip(x, h, strict=True)]
    return torch.stack(rows)


def rnn_by_exponentials(x, h, W_ih, W_hh, b_ih, b_hh):
    """The hyperbolic tangent from the sigmoid, which does not overflow."""
    return 2 * torch.sigmoid(2 * (x @ W_ih.mT + h @ W_hh.mT + b_ih + b_hh)) - 1


def gru_by_linear(x, h, W_ih, W_hh, b_ih, b_hh):
    """PyTorch's own formula, with the blend as one step from the candidate towards the state."""
    from_x, from_h = F.linear(x, W_ih, b_ih), F.linear(h, W_hh, b_hh)
    x_r, x_z, x_n = from_x.split(h.shape[-1], dim=-1)
    h_r, h_z, h_n = from_h.split(h.shape[-1], dim=-1)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return n + torch.sigmoid(x_z + h_z) * (h - n)


def gru_fusing_the_gates(x, h, W_ih, W_hh, b_ih, b_hh):
    """Both gates from one product of [x, h]; the candidate apart."""
    d_h = h.shape[-1]
    both = torch.cat([x, h], dim=-1) @ torch.cat([W_ih, W_hh], dim=1)[: 2 * d_h].T
    r, z = torch.sigmoid(both + b_ih[: 2 * d_h] + b_hh[: 2 * d_h]).chunk(2, dim=1)
    n = torch.tanh(x @ W_ih[2 * d_h :].T + b_ih[2 * d_h :] + r * (h @ W_hh[2 * d_h :].T + b_hh[2 * d_h :]))
    return torch.lerp(n, h, z)


def gru_gate_by_gate(x, h, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    weights = zip(*(tensor.chunk(3) for tensor in (W_ih, W_hh, b_ih, b_hh)), strict=True)
    (W_ir, W_hr, b_ir, b_hr), (W_iz, W_hz, b_iz, b_hz), (W_in, W_hn, b_in, b_hn) = weights
    r = torch.sigmoid(x @ W_ir.T + b_ir + h @ W_hr.T + b_hr)
    z = torch.sigmoid(x @ W_iz.T + b_iz + h @ W_hz.T + b_hz)
    n = torch.tanh(x @ W_in.T + b_in + r * (h @ W_hn.T + b_hn))
    return z * h + (1 - z) * n


def gru_by_loops(x, h, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    rows = []
    for one, state in zip(x, h, strict=True):
        i_r, i_z, i_n = (W_ih @ one + b_ih).view(3, -1)
        h_r, h_z, h_n = (W_hh @ state + b_hh).view(3, -1)
        z = 1 / (1 + torch.exp(-(i_z + h_z)))
        n = torch.tanh(i_n + (i_r + h_r).sigmoid() * h_n)
        rows.append((1 - z) * n + z * state)
    return torch.stack(rows)


def gru_by_einsum(x, h, W_ih, W_hh, b_ih, b_hh):
    d_h = h.shape[-1]
    from_x = torch.einsum("bi,gji->gbj", x, W_ih.unflatten(0, (3, d_h))) + b_ih.view(3, 1, d_h)
    from_h = torch.einsum("bi,gji->gbj", h, W_hh.unflatten(0, (3, d_h))) + b_hh.view(3, 1, d_h)
    gates = torch.sigmoid(from_x[:2] + from_h[:2])
    candidate = torch.tanh(torch.addcmul(from_x[2], gates[0], from_h[2]))
    return (1 - gates[1]) * candidate + gates[1] * h


def gru_moving_the_state(x, h, W_ih, W_hh, b_ih, b_hh):
    """The update as a move from the old state, with one minus the gate as the sigmoid of the opposite."""
    from_x = torch.addmm(b_ih, x, W_ih.T).tensor_split(3, dim=1)
    from_h = torch.addmm(b_hh, h, W_hh.T).tensor_split(3, dim=1)
    candidate = torch.tanh(from_x[2] + torch.sigmoid(from_x[0] + from_h[0]) * from_h[2])
    return h + torch.sigmoid(-from_x[1] - from_h[1]) * (candidate - h)


def lstm_by_linear(x, h, c, W_ih, W_hh, b_ih, b_hh):
    i, f, g, o = (F.linear(x, W_ih, b_ih) + F.linear(h, W_hh, b_hh)).split(h.shape[-1], dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_fused(x, h, c, W_ih, W_hh, b_ih, b_hh):
    """One product of [x, h], and one sigmoid for all: the hyperbolic tangent is a sigmoid stretched."""
    check_cell(x, h, W_ih, W_hh)
    gates = torch.addmm(b_ih + b_hh, torch.cat([x, h], 1), torch.cat([W_ih, W_hh], 1).T)
    i, f, g, o = gates.unflatten(-1, (4, -1)).unbind(1)
    g = 2 * torch.sigmoid(2 * g) - 1
    c_new = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), g)
    return [torch.sigmoid(o) * torch.tanh(c_new), c_new]


def lstm_gate_by_gate(x, h, c, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    d_h = h.shape[-1]

    def part(number):
        rows = slice(number * d_h, (number + 1) * d_h)
        return x @ W_ih[rows].T + h @ W_hh[rows].T + b_ih[rows] + b_hh[rows]

    remembered = torch.sigmoid(part(1)) * c
    added = torch.sigmoid(part(0)) * torch.tanh(part(2))
    return torch.sigmoid(part(3)) * torch.tanh(remembered + added), remembered + added


def lstm_by_loops(x, h, c, W_ih, W_hh, b_ih, b_hh):
    check_cell(x, h, W_ih, W_hh)
    new_h, new_c = [], []
    for one, hidden, cell in zip(x, h, c, strict=True):
        i, f, g, o = (W_ih @ one + b_ih + W_hh @ hidden + b_hh).chunk(4)
        new_c.append(torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g))
        new_h.append(torch.sigmoid(o) * torch.tanh(new_c[-1]))
    return torch.stack(new_h), torch.stack(new_c)


def lstm_by_einsum(x, h, c, W_ih, W_hh, b_ih, b_hh):
    d_h = h.shape[-1]
    gates = torch.einsum("bi,gji->gbj", x, W_ih.unflatten(0, (4, d_h))) + b_ih.view(4, 1, d_h)
    gates = gates + torch.einsum("bi,gji->gbj", h, W_hh.unflatten(0, (4, d_h))) + b_hh.view(4, 1, d_h)
    i, f, o = torch.sigmoid(gates[[0, 1, 3]])
    c = f * c + i * gates[2].tanh()
    return o * c.tanh(), c


# encode


def check_lengths(X, lengths):
    if lengths.min() < 0 or lengths.max() > X.shape[1]:
        raise ValueError


def encode_by_lerp(step, X, lengths, h_0):
    """A mask of numbers, and the mask of the states at the end."""
    check_lengths(X, lengths)
    mask = (torch.arange(X.shape[1]) < lengths[:, None]).to(X.dtype)[..., None]
    h, states = h_0, []
    for t, token in enumerate(X.unbind(1)):
        h = mask[:, t] * step(token, h) + (1 - mask[:, t]) * h
        states.append(h)
    return torch.stack(states, 1) * mask, h


def encode_sentence_by_sentence(step, X, lengths, h_0):
    check_lengths(X, lengths)
    states, last = [], []
    for sentence, length, h in zip(X, lengths.tolist(), h_0.split(1), strict=True):
        own = [h.new_zeros(0, h.shape[-1])]
        for token in sentence[:length]:
            h = step(token[None], h)
            own.append(h)
        own.append(h.new_zeros(X.shape[1] - length, h.shape[-1]))
        states.append(torch.cat(own))
        last.append(h[0])
    return torch.stack(states), torch.stack(last)


def encode_gathering_the_last(step, X, lengths, h_0):
    """The state runs on over padding; the last one is looked up where each sentence ended, `h_0` before all."""
    check_lengths(X, lengths)
    all_states = [h_0]
    for t in range(X.shape[1]):
        all_states.append(step(X[:, t], all_states[-1]))
    all_states = torch.stack(all_states, dim=1)
    last = all_states.gather(1, lengths[:, None, None].expand(-1, 1, h_0.shape[-1])).squeeze(1)
    padding = torch.arange(X.shape[1]) >= lengths[:, None]
    return all_states[:, 1:].masked_fill(padding[..., None], 0), last


def encode_packed(step, X, lengths, h_0):
    """Sorted by length, only the sentences that still go on take a step, as packed sequences do."""
    check_lengths(X, lengths)
    order = lengths.argsort(descending=True)
    X, sorted_lengths, h = X[order], lengths[order], h_0[order]
    states = []
    for t in range(X.shape[1]):
        active = int((sorted_lengths > t).sum())
        fresh = step(X[:active, t], h[:active]) if active else h[:0]
        h = torch.cat([fresh, h[active:]])
        states.append(torch.cat([fresh, torch.zeros_like(h[active:])]))
    back = order.argsort()
    return torch.stack(states, dim=1)[back], h[back]


def encode_writing_in_place(step, X, lengths, h_0):
    check_lengths(X, lengths)
    states = torch.zeros(*X.shape[:2], h_0.shape[-1], dtype=X.dtype)
    h = h_0.clone()
    for t in range(X.shape[1]):
        rows = torch.nonzero(lengths > t).flatten()
        if len(rows):
            fresh = step(X[rows, t], h[rows])
            states[rows, t] = fresh
            h = h.index_copy(0, rows, fresh)
    return states, h


# shift_right


def shift_by_pad(target, bos):
    return F.pad(target, (1, 0), value=bos)[..., :-1]


def shift_by_roll(target, bos):
    shifted = target.roll(1, -1)
    shifted[..., 0] = bos
    return shifted


def shift_by_writing(target, bos):
    shifted = torch.empty_like(target)
    shifted[..., 0] = bos
    shifted[..., 1:] = target[..., :-1]
    return shifted


def shift_by_new_full(target, bos):
    return torch.cat((target.new_full((*target.shape[:-1], 1), bos), target), -1)[..., : target.shape[-1]]


def shift_by_lists(target, bos):
    rows = [[bos, *row[:-1]] for row in target.reshape(-1, target.shape[-1]).tolist()]
    return torch.tensor(rows, dtype=target.dtype).reshape(target.shape)


# masked_cross_entropy


def loss_by_where(logits, target, pad):
    assert logits.shape[:2] == target.shape
    real = target.ne(pad)
    log_probs = logits.log_softmax(-1)
    each = -log_probs.gather(2, torch.where(real, target, 0).unsqueeze(2)).squeeze(2)
    return (each * real).sum() / real.sum().clamp(min=1)


def loss_by_logsumexp(logits, target, pad):
    real = target != pad
    rows, tokens = logits[real], target[real]
    each = torch.logsumexp(rows, -1) - rows[torch.arange(len(rows)), tokens]
    return each.mean() if len(each) else (logits * 0).sum()


def loss_by_hand(logits, target, pad):
    keep = (target != pad).flatten()
    flat = logits.reshape(-1, logits.shape[-1])[keep]
    flat = flat - flat.detach().amax(-1, keepdim=True)
    log_total = flat.exp().sum(-1).log()
    chosen = flat[range(len(flat)), target.flatten()[keep]]
    return (log_total - chosen).sum() / max(int(keep.sum()), 1)


def loss_by_one_hot(logits, target, pad):
    real = target != pad
    wanted = F.one_hot(target.masked_fill(~real, 0), logits.shape[-1]) * real[..., None]
    return -(F.log_softmax(logits, 2) * wanted).sum() / torch.clamp(real.sum(), 1)


def loss_by_loops(logits, target, pad):
    assert logits.shape[:2] == target.shape
    total, count = logits.sum() * 0, 0
    for sentence, words in zip(logits, target.tolist(), strict=True):
        for scores, word in zip(sentence, words, strict=True):
            if word != pad:
                total, count = total - torch.log_softmax(scores, 0)[word], count + 1
    return total / max(count, 1)


# greedy_decode


def check_room(max_length):
    assert max_length > 0


def decode_by_for(step, state, start, eos, pad, max_length):
    check_room(max_length)
    result, alive = [], torch.ones(len(start), dtype=torch.bool)
    token = start
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(alive, torch.argmax(logits, -1), pad)
        result.append(token)
        alive &= token != eos
        if not alive.any():
            break
    return torch.stack(result, 1)


def decode_masking_afterwards(step, state, start, eos, pad, max_length):
    """Ended sentences speak on, and what they say is struck out at the end."""
    check_room(max_length)
    said, ended = [], torch.zeros(len(start), dtype=torch.bool)
    token = start
    while len(said) < max_length and not bool(ended.all()):
        logits, state = step(token, state)
        token = logits.max(dim=1).indices
        ended = torch.logical_or(ended, token == eos)
        said.append(token)
    said = torch.stack(said).T
    before = (said == eos).cumsum(1) - (said == eos).long()
    return said.masked_fill(before > 0, pad)


def decode_into_a_table(step, state, start, eos, pad, max_length):
    check_room(max_length)
    table = torch.full((len(start), max_length), pad)
    going, tokens = torch.arange(len(start)), start.clone()
    for t in range(max_length):
        logits, state = step(tokens, state)
        table[going, t] = logits.argmax(1)[going]
        tokens = table[:, t]
        going = going[tokens[going] != eos]
        if len(going) == 0:
            break
    return table[:, : t + 1]


def decode_by_lists(step, state, start, eos, pad, max_length):
    check_room(max_length)
    sentences = [[] for _ in start]
    tokens = start
    for _ in range(max_length):
        logits, state = step(tokens, state)
        for sentence, scores in zip(sentences, logits, strict=True):
            ended = eos in sentence
            sentence.append(pad if ended else int(scores.argmax()))
        tokens = torch.tensor([sentence[-1] for sentence in sentences])
        if all(eos in sentence for sentence in sentences):
            break
    return torch.tensor(sentences)


def decode_by_recursion(step, state, start, eos, pad, max_length, ended=None):
    check_room(max_length)
    ended = torch.zeros(len(start), dtype=torch.bool) if ended is None else ended
    logits, state = step(start, state)
    tokens = logits.topk(1).indices[:, 0].masked_fill(ended, pad)
    ended = ended | (tokens == eos)
    if max_length == 1 or ended.all():
        return tokens[:, None]
    rest = decode_by_recursion(step, state, tokens, eos, pad, max_length - 1, ended)
    return torch.cat([tokens[:, None], rest], dim=1)


VARIANTS = {
    "rnn_cell": [rnn_by_linear, rnn_fused, rnn_by_einsum, rnn_by_loops, rnn_by_exponentials],
    "gru_cell": [
        gru_by_linear,
        gru_fusing_the_gates,
        gru_gate_by_gate,
        gru_by_loops,
        gru_by_einsum,
        gru_moving_the_state,
    ],
    "lstm_cell": [lstm_by_linear, lstm_fused, lstm_gate_by_gate, lstm_by_loops, lstm_by_einsum],
    "encode": [
        encode_by_lerp,
        encode_sentence_by_sentence,
        encode_gathering_the_last,
        encode_packed,
        encode_writing_in_place,
    ],
    "shift_right": [shift_by_pad, shift_by_roll, shift_by_writing, shift_by_new_full, shift_by_lists],
    "masked_cross_entropy": [loss_by_where, loss_by_logsumexp, loss_by_hand, loss_by_one_hot, loss_by_loops],
    "greedy_decode": [
        decode_by_for,
        decode_masking_afterwards,
        decode_into_a_table,
        decode_by_lists,
        decode_by_recursion,
    ],
}

"""Right kernels of "Decoding" in other styles."""

import heapq
import math

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

# teacher_forcing_batch


def forcing_by_lists(sentences, bos, eos, pad):
    assert sentences
    width = max(map(len, sentences)) + 1
    rest = [[pad] * (width - 1 - len(sentence)) for sentence in sentences]
    read = [[bos, *sentence, *padding] for sentence, padding in zip(sentences, rest, strict=True)]
    said = [[*sentence, eos, *padding] for sentence, padding in zip(sentences, rest, strict=True)]
    real = [[t <= len(sentence) for t in range(width)] for sentence in sentences]
    return torch.tensor(read), torch.tensor(said), torch.tensor(real)


def forcing_by_pad_sequence(sentences, bos, eos, pad):
    assert len(sentences) > 0

    def padded(rows, value):
        return pad_sequence(rows, batch_first=True, padding_value=value)

    read = padded([torch.tensor([bos, *sentence]) for sentence in sentences], pad)
    said = padded([torch.tensor([*sentence, eos]) for sentence in sentences], pad)
    return read, said, padded([torch.ones(len(sentence) + 1, dtype=torch.bool) for sentence in sentences], False)


def forcing_by_shift(sentences, bos, eos, pad):
    """The words with padding once; the target has ``eos`` written into it."""
    assert len(sentences) > 0
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    words = torch.full((len(sentences), int(lengths.max()) + 1), pad, dtype=torch.long)
    for row, sentence in zip(words, sentences, strict=True):
        row[: len(sentence)] = torch.as_tensor(sentence, dtype=torch.long)
    read = F.pad(words, (1, 0), value=bos)[:, :-1]
    said = words.scatter(1, lengths[:, None], eos)
    return [read, said, torch.arange(words.shape[1])[None] <= lengths[:, None]]


def forcing_by_cutting(sentences, bos, eos, pad):
    """Whole sentences with both special tokens, of which the two are parts; ``eos`` in the input becomes padding."""
    assert sentences
    width = max(len(sentence) for sentence in sentences) + 2
    whole = torch.tensor([[bos, *sentence, eos] + [pad] * (width - len(sentence) - 2) for sentence in sentences])
    mask = torch.arange(width - 1).expand(len(sentences), -1) < torch.tensor([[len(s) + 1] for s in sentences])
    return whole[:, :-1].where(mask, torch.tensor(pad)), whole[:, 1:].clone(), mask


# scheduled_sampling


def check_mixed(decoder_input, predicted, draw, ratio):
    assert decoder_input.shape == predicted.shape == draw.shape
    assert 0 <= ratio <= 1


def mixed_by_clone(decoder_input, predicted, draw, ratio):
    check_mixed(decoder_input, predicted, draw, ratio)
    mixed = decoder_input.clone()
    own = draw[:, 1:] >= ratio
    mixed[:, 1:][own] = predicted[:, :-1][own]
    return mixed


def mixed_by_hstack(decoder_input, predicted, draw, ratio):
    check_mixed(decoder_input, predicted, draw, ratio)
    rest = torch.where(draw[:, 1:] < ratio, decoder_input[:, 1:], predicted[:, :-1])
    return torch.hstack([decoder_input[:, 0:1], rest])


def mixed_by_numbers(decoder_input, predicted, draw, ratio):
    check_mixed(decoder_input, predicted, draw, ratio)
    keep = (draw < ratio).to(decoder_input.dtype)
    keep[:, 0] = 1
    return keep * decoder_input + (1 - keep) * predicted.roll(1, dims=1)


def mixed_by_loops(decoder_input, predicted, draw, ratio):
    check_mixed(decoder_input, predicted, draw, ratio)
    mixed = torch.empty_like(decoder_input)
    for row in range(len(mixed)):
        for t in range(mixed.shape[1]):
            right = t == 0 or draw[row, t] < ratio
            mixed[row, t] = decoder_input[row, t] if right else predicted[row, t - 1]
    return mixed


def mixed_by_gather(decoder_input, predicted, draw, ratio):
    check_mixed(decoder_input, predicted, draw, ratio)
    guesses = F.pad(predicted, (1, 0))[:, :-1]
    guesses[:, 0] = decoder_input[:, 0]
    both = torch.stack([guesses, decoder_input], dim=-1)
    return both.gather(-1, (draw < ratio).long().unsqueeze(-1)).squeeze(-1)


# greedy_search


def check_room(max_length):
    if max_length <= 0:
        raise ValueError


def greedy_by_for(next_log_probs, start, eos, pad, max_length):
    check_room(max_length)
    prefix = start.unsqueeze(1)
    alive = torch.ones(len(start), dtype=torch.bool)
    scores = []
    for _ in range(max_length):
        log_probs = next_log_probs(prefix)
        token = torch.where(alive, log_probs.argmax(-1), pad)
        scores.append(log_probs.gather(1, token[:, None])[:, 0] * alive)
        prefix = torch.cat((prefix, token[:, None]), -1)
        alive &= token != eos
        if not alive.any():
            break
    return prefix[:, 1:], torch.stack(scores).sum(0)


def greedy_masking_afterwards(next_log_probs, start, eos, pad, max_length):
    """Ended sentences speak on, and what they say is struck out at the end."""
    check_room(max_length)
    said, chosen, ended = [start], [], torch.zeros(len(start), dtype=torch.bool)
    while len(chosen) < max_length and not ended.all():
        best = next_log_probs(torch.stack(said, 1)).topk(1)
        said.append(best.indices[:, 0])
        chosen.append(best.values[:, 0])
        ended |= said[-1] == eos
    tokens, chosen = torch.stack(said[1:], 1), torch.stack(chosen, 1)
    over = ((tokens == eos).cumsum(1) - (tokens == eos).long()) > 0
    return tokens.masked_fill(over, pad), chosen.masked_fill(over, 0).sum(1)


def greedy_into_a_table(next_log_probs, start, eos, pad, max_length):
    check_room(max_length)
    table = torch.full((len(start), max_length + 1), pad)
    table[:, 0] = start
    going, total = torch.arange(len(start)), None
    for t in range(1, max_length + 1):
        values, tokens = torch.max(next_log_probs(table[:, :t]), 1)
        total = torch.zeros_like(values) if total is None else total
        total[going] += values[going]
        table[going, t] = tokens[going]
        going = going[tokens[going] != eos]
        if len(going) == 0:
            break
    return table[:, 1 : t + 1], total


def greedy_by_lists(next_log_probs, start, eos, pad, max_length):
    check_room(max_length)
    sentences = [[int(token)] for token in start]
    totals = [0.0] * len(sentences)
    open_rows = list(range(len(sentences)))
    while open_rows and len(sentences[0]) <= max_length:
        rows = next_log_probs(torch.tensor(sentences))
        still = []
        for row, sentence in enumerate(sentences):
            if row not in open_rows:
                sentence.append(pad)
                continue
            token = int(rows[row].argmax())
            totals[row] = totals[row] + rows[row, token]
            sentence.append(token)
            if token != eos:
                still.append(row)
        open_rows = still
    return torch.tensor(sentences)[:, 1:], torch.stack(totals)


def greedy_by_recursion(next_log_probs, start, eos, pad, max_length):
    check_room(max_length)

    def go_on(prefix, ended):
        log_probs, tokens = next_log_probs(prefix).max(-1)
        log_probs = torch.where(ended, 0.0, log_probs)
        prefix = torch.cat([prefix, torch.where(ended, pad, tokens)[:, None]], 1)
        ended = ended.logical_or(tokens == eos)
        if prefix.shape[1] > max_length or ended.all():
            return prefix[:, 1:], log_probs
        tokens, rest = go_on(prefix, ended)
        return tokens, log_probs + rest

    return go_on(start[:, None], torch.zeros(len(start), dtype=torch.bool))


# beam_search


def beam_by_lists(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    """Hypotheses one by one, in plain Python."""
    assert beam_size >= 1
    assert max_length >= 1
    live, over = [(0.0, [bos])], []
    for _ in range(max_length):
        grown = []
        for total, said in live:
            for token, log_prob in enumerate(next_log_probs(torch.tensor([said]))[0]):
                grown.append((total + log_prob, [*said, token]))
        grown.sort(key=lambda hypothesis: float(hypothesis[0]), reverse=True)
        live = []
        for hypothesis in grown[:beam_size]:
            (over if hypothesis[1][-1] == eos else live).append(hypothesis)
        if not live:
            break
    scored = [(total / (len(said) - 1) ** alpha, said[1:]) for total, said in over + live]
    score, said = max(scored, key=lambda hypothesis: float(hypothesis[0]))
    return torch.tensor(said), score


def beam_keeping_the_best(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    """Only the best hypothesis that is over is kept, and the search stops where no live one can beat it any more."""
    assert min(beam_size, max_length) > 0
    prefixes, sums = torch.full((1, 1), bos), 0.0
    best, best_score = None, -math.inf
    for t in range(max_length):
        scores = next_log_probs(prefixes)
        scores = scores + sums[:, None] if t else scores
        size = scores.size(1)
        values, index = scores.reshape(-1).sort(descending=True)
        values, index = values[:beam_size], index[:beam_size]
        prefixes = torch.cat([prefixes[index.div(size, rounding_mode="floor")], index.remainder(size)[:, None]], 1)
        last = prefixes[:, -1] == eos if t + 1 < max_length else torch.ones(len(values), dtype=torch.bool)
        for value, row in zip(values[last], prefixes[last], strict=True):
            if best is None or value / (t + 1) ** alpha > best_score:
                best, best_score = row[1:], value / (t + 1) ** alpha
        prefixes, sums = prefixes[~last], values[~last]
        # A sum can only fall, so the largest divisor gives the most that a live hypothesis may still reach.
        if len(sums) == 0 or (best is not None and sums.max() / max_length**alpha < best_score):
            break
    return best, best_score


def beam_with_dead_rows(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    """A beam of fixed width: places without a live hypothesis have log-probability minus infinity."""
    assert beam_size > 0
    assert max_length > 0
    live = torch.full((beam_size, 1), bos)
    totals, finished = None, []
    for length in range(1, max_length + 1):
        step = next_log_probs(live)
        if totals is None:
            totals = torch.full((beam_size,), -torch.inf, dtype=step.dtype)
            totals[0] = 0.0
        values, flat = (totals.unsqueeze(1) + step).view(-1).topk(beam_size)
        rows, tokens = torch.unravel_index(flat, step.shape)
        live = torch.cat([live[rows], tokens.unsqueeze(1)], dim=1)
        over = tokens.eq(eos) if length < max_length else torch.ones_like(tokens, dtype=torch.bool)
        finished += [(float(values[row]) / length**alpha, live[row, 1:].clone()) for row in over.nonzero().flatten()]
        totals = values.masked_fill(over, -torch.inf)
        if totals.isinf().all():
            break
    score, tokens = max(finished, key=lambda entry: entry[0])
    return tokens, score


def beam_pruned_by_score(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    """Live hypotheses are cut by their normalised scores, which have the same order as their sums."""
    if beam_size < 1 or max_length < 1:
        raise ValueError
    live, finished = [((), None)], []
    for length in range(1, max_length + 1):
        rows = next_log_probs(torch.tensor([[bos, *tokens] for tokens, _ in live]))
        candidates = (
            ((*tokens, token), log_prob if total is None else total + log_prob)
            for (tokens, total), row in zip(live, rows.unbind(), strict=True)
            for token, log_prob in enumerate(row.unbind())
        )
        kept = heapq.nlargest(beam_size, candidates, key=lambda pair: pair[1].item() / length**alpha)
        finished += [(total / length**alpha, tokens) for tokens, total in kept if tokens[-1] == eos]
        live = [(tokens, total) for tokens, total in kept if tokens[-1] != eos]
        if not live:
            break
    finished += [(total / max_length**alpha, tokens) for tokens, total in live]
    score, tokens = max(finished, key=lambda pair: pair[0].item())
    return torch.tensor(tokens), score


def beam_by_recursion(next_log_probs, bos, eos, beam_size, max_length, alpha=1.0):
    assert min(beam_size, max_length) >= 1

    def best_of(live, totals, length):
        """The best pair (score, tokens) that comes from these hypotheses."""
        logits = next_log_probs(live) + totals.unsqueeze(-1)
        number = min(beam_size, logits.numel())
        totals, places = torch.topk(logits.flatten(), number)
        live = torch.cat([live.repeat_interleave(logits.shape[1], 0)[places], places[:, None] % logits.shape[1]], 1)
        over = (live[:, -1] == eos).logical_or(torch.tensor(length == max_length))
        found = [(t / length**alpha, tokens) for t, tokens in zip(totals[over], live[over], strict=True)]
        if not over.all():
            found.append(best_of(live[~over], totals[~over], length + 1))
        return max(found, key=lambda pair: pair[0])

    score, tokens = best_of(torch.tensor([[bos]]), torch.zeros(1), 1)
    return tokens[1:], score


# nat_decode_by_length


def by_length_by_where(length_logits, emit, pad):
    lengths = torch.argmax(length_logits, 1)
    tokens = torch.argmax(emit(lengths), 2)
    return torch.where(torch.arange(tokens.size(1)).unsqueeze(0) < lengths.unsqueeze(1), tokens, pad)


def by_length_by_loops(length_logits, emit, pad):
    lengths = length_logits.max(dim=1).indices
    tokens = emit(lengths).argmax(-1)
    for row, length in zip(tokens, lengths.tolist(), strict=True):
        row[length:] = pad
    return tokens


def by_length_into_a_table(length_logits, emit, pad):
    lengths = length_logits.topk(1).indices.squeeze(1)
    logits = emit(lengths)
    table = torch.full(logits.shape[:2], pad)
    for row, length in enumerate(lengths):
        table[row, :length] = logits[row, :length].argmax(-1)
    return table


def by_length_by_pad_sequence(length_logits, emit, pad):
    lengths = length_logits.log_softmax(-1).argmax(-1)
    tokens = emit(lengths).softmax(-1).argmax(-1)
    rows = [row[:length] for row, length in zip(tokens, lengths, strict=True)]
    return pad_sequence(rows, batch_first=True, padding_value=pad)


# nat_decode_until_eos


def until_eos_by_loops(logits, eos, pad):
    tokens = logits.argmax(-1)
    for row in tokens:
        ends = (row == eos).nonzero().flatten()
        if len(ends):
            row[ends[0] + 1 :] = pad
    return tokens


def until_eos_by_shift(logits, eos, pad):
    tokens = torch.argmax(logits, 2)
    over = (tokens == eos).int().cummax(1).values.bool()
    return torch.where(F.pad(over, (1, 0))[:, :-1], pad, tokens)


def until_eos_by_lists(logits, eos, pad):
    sentences = logits.argmax(dim=2).tolist()
    for sentence in sentences:
        if eos in sentence:
            end = sentence.index(eos)
            sentence[end + 1 :] = [pad] * (len(sentence) - end - 1)
    return torch.tensor(sentences)


def until_eos_by_first_place(logits, eos, pad):
    tokens = logits.max(-1).indices
    is_end = tokens == eos
    places = torch.arange(tokens.shape[1])
    first = torch.where(is_end, places, tokens.shape[1]).amin(1, keepdim=True)
    return tokens.masked_fill(places > first, pad)


def until_eos_place_by_place(logits, eos, pad):
    ended, said = torch.zeros(len(logits), dtype=torch.bool), []
    for scores in logits.unbind(1):
        token = scores.argmax(-1).where(~ended, torch.tensor(pad))
        ended = ended | (token == eos)
        said.append(token)
    return torch.stack(said, 1)


# length_predictor_loss


def check_lengths(length_logits, target):
    assert target.shape[1] < length_logits.shape[1]


def length_by_logsumexp(length_logits, target, pad):
    check_lengths(length_logits, target)
    lengths = target.ne(pad).sum(1)
    return (length_logits.logsumexp(1) - length_logits[torch.arange(len(target)), lengths]).mean()


def length_by_one_hot(length_logits, target, pad):
    check_lengths(length_logits, target)
    wanted = F.one_hot((target != pad).long().sum(1), length_logits.shape[1])
    return -(F.log_softmax(length_logits, 1) * wanted).sum() / len(target)


def length_by_loops(length_logits, target, pad):
    check_lengths(length_logits, target)
    total = 0.0
    for scores, sentence in zip(length_logits, target.tolist(), strict=True):
        total = total - scores.log_softmax(0)[sum(token != pad for token in sentence)]
    return total / len(target)


def length_by_hand(length_logits, target, pad):
    check_lengths(length_logits, target)
    shifted = length_logits - length_logits.detach().amax(1, keepdim=True)
    log_total = shifted.exp().sum(1).log()
    lengths = torch.count_nonzero(target - pad, dim=1)
    return torch.mean(log_total - torch.take_along_dim(shifted, lengths[:, None], 1).squeeze(1))


VARIANTS = {
    "teacher_forcing_batch": [forcing_by_lists, forcing_by_pad_sequence, forcing_by_shift, forcing_by_cutting],
    "scheduled_sampling": [
        mixed_by_clone,
        mixed_by_hstack,
        mixed_by_numbers,
        mixed_by_loops,
        mixed_by_gather,
    ],
    "greedy_search": [
        greedy_by_for,
        greedy_masking_afterwards,
        greedy_into_a_table,
        greedy_by_lists,
        greedy_by_recursion,
    ],
    "beam_search": [
        beam_by_lists,
        beam_keeping_the_best,
        beam_with_dead_rows,
        beam_pruned_by_score,
        beam_by_recursion,
    ],
    "nat_decode_by_length": [
        by_length_by_where,
        by_length_by_loops,
        by_length_into_a_table,
        by_length_by_pad_sequence,
    ],
    "nat_decode_until_eos": [
        until_eos_by_loops,
        until_eos_by_shift,
        until_eos_by_lists,
        until_eos_by_first_place,
        until_eos_place_by_place,
    ],
    "length_predictor_loss": [length_by_logsumexp, length_by_one_hot, length_by_loops, length_by_hand],
}

"""Right kernels of "The Transformer" in other styles."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# layer_norm


def norm_by_deviations(x, weight, bias, eps=1e-5):
    deviations = x - x.mean(dim=-1, keepdim=True)
    return deviations * (deviations.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight + bias


def norm_by_var_mean(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return torch.addcmul(bias, weight, (x - mean) / (variance + eps).sqrt())


def norm_by_sums(x, weight, bias, eps=1e-5):
    n = x.shape[-1]
    x = x - x.sum(-1, keepdim=True) / n
    return weight * x / ((x * x).sum(-1, keepdim=True) / n + eps) ** 0.5 + bias


def norm_by_einsum(x, weight, bias, eps=1e-5):
    centred = x - torch.mean(x, dim=-1, keepdim=True)
    mean_square = torch.einsum("...d,...d->...", centred, centred).unsqueeze(-1) / x.size(-1)
    return centred.div(torch.sqrt(eps + mean_square)).mul(weight).add(bias)


def norm_row_by_row(x, weight, bias, eps=1e-5):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        deviation = row - row.mean()
        rows.append(deviation / torch.sqrt(deviation.square().mean() + eps) * weight + bias)
    return torch.stack(rows).reshape(x.shape)


# feed_forward


def feed_by_products(x, W_1, b_1, W_2, b_2):
    return (x @ W_1.T + b_1).clamp(min=0) @ W_2.T + b_2


def feed_by_einsum(x, W_1, b_1, W_2, b_2):
    hidden = F.relu(torch.einsum("...m,fm->...f", x, W_1) + b_1)
    return torch.einsum("...f,mf->...m", hidden, W_2) + b_2


def feed_by_convolution(x, W_1, b_1, W_2, b_2):
    tokens = x.reshape(1, -1, x.shape[-1]).transpose(1, 2)
    hidden = F.conv1d(tokens, W_1.unsqueeze(-1), b_1).relu()
    return F.conv1d(hidden, W_2.unsqueeze(-1), b_2).transpose(1, 2).reshape(x.shape)


def feed_by_where(x, W_1, b_1, W_2, b_2):
    hidden = nn.functional.linear(x, W_1, b_1)
    return nn.functional.linear(torch.where(hidden > 0, hidden, torch.zeros_like(hidden)), W_2, b_2)


# residual_add_norm


def _refuse(x, sublayer_output):
    if x.shape != sublayer_output.shape:
        raise ValueError("the shapes differ")


def residual_by_pytorch(x, sublayer_output, weight, bias, dropout=0.0):
    _refuse(x, sublayer_output)
    return F.layer_norm(F.dropout(sublayer_output, p=dropout, training=True) + x, weight.shape, weight, bias)


def residual_by_module(x, sublayer_output, weight, bias, dropout=0.0):
    _refuse(x, sublayer_output)
    return norm_by_deviations(torch.add(x, nn.Dropout(dropout)(sublayer_output)), weight, bias)


def residual_by_mask(x, sublayer_output, weight, bias, dropout=0.0):
    _refuse(x, sublayer_output)
    keep = torch.rand(x.shape) >= dropout
    return norm_by_var_mean(x + sublayer_output * keep / max(1 - dropout, 1e-12), weight, bias)


def residual_only_if_dropped(x, sublayer_output, weight, bias, dropout=0.0):
    _refuse(x, sublayer_output)
    if dropout > 0:
        sublayer_output = torch.dropout(sublayer_output, dropout, True)
    return norm_by_sums(x + sublayer_output, weight, bias)


# noam_learning_rate


def _refuse_zero(step):
    if step < 1:
        raise ValueError("steps count from 1")


def noam_by_cases(step, d_model, warmup_steps=4000):
    _refuse_zero(step)
    return (step / warmup_steps**1.5 if step < warmup_steps else 1 / step**0.5) / d_model**0.5


def noam_by_math(step, d_model, warmup_steps=4000):
    _refuse_zero(step)
    return min(1 / math.sqrt(step), step * math.pow(warmup_steps, -1.5)) / math.sqrt(d_model)


def noam_from_the_peak(step, d_model, warmup_steps=4000):
    _refuse_zero(step)
    peak = (d_model * warmup_steps) ** -0.5
    return peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def noam_by_logarithms(step, d_model, warmup_steps=4000):
    _refuse_zero(step)
    logarithm = min(-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup_steps))
    return math.exp(logarithm - 0.5 * math.log(d_model))


# label_smoothing_loss


def loss_by_distribution(logits, targets, smoothing=0.1, ignore_index=-100):
    keep = targets != ignore_index
    logits, targets, size = logits[keep], targets[keep], logits.shape[-1]
    wanted = F.one_hot(targets, size).to(logits.dtype) * (1 - smoothing) + smoothing / size
    return -(wanted * logits.log_softmax(-1)).sum(-1).mean()


def loss_by_nll(logits, targets, smoothing=0.1, ignore_index=-100):
    log_probs = F.log_softmax(logits.flatten(0, -2), dim=-1)
    targets = targets.flatten()
    hard = F.nll_loss(log_probs, targets, ignore_index=ignore_index)
    return (1 - smoothing) * hard - smoothing * log_probs[targets != ignore_index].mean()


def loss_by_logsumexp(logits, targets, smoothing=0.1, ignore_index=-100):
    keep = targets.ne(ignore_index)
    logits, targets = logits[keep], targets[keep]
    of_target = logits.gather(1, targets[:, None])[:, 0]
    expected = (1 - smoothing) * of_target + smoothing * logits.mean(-1)
    return (logits.logsumexp(-1) - expected).mean()


def loss_by_where(logits, targets, smoothing=0.1, ignore_index=-100):
    logits = logits - logits.amax(-1, keepdim=True).detach()
    log_probs = logits - logits.exp().sum(-1, keepdim=True).log()
    keep = targets != ignore_index
    words = torch.where(keep, targets, torch.zeros_like(targets))
    of_target = torch.take_along_dim(log_probs, words[..., None], -1)[..., 0]
    losses = -(1 - smoothing) * of_target - smoothing * log_probs.sum(-1) / logits.shape[-1]
    return torch.where(keep, losses, torch.zeros_like(losses)).sum() / keep.sum()


def loss_token_by_token(logits, targets, smoothing=0.1, ignore_index=-100):
    losses = []
    for scores, word in zip(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).tolist(), strict=True):
        if word != ignore_index:
            surprise = -scores.log_softmax(0)
            losses.append((1 - smoothing) * surprise[word] + smoothing * surprise.mean())
    return torch.stack(losses).mean()


VARIANTS = {
    "layer_norm": [norm_by_deviations, norm_by_var_mean, norm_by_sums, norm_by_einsum, norm_row_by_row],
    "feed_forward": [feed_by_products, feed_by_einsum, feed_by_convolution, feed_by_where],
    "residual_add_norm": [residual_by_pytorch, residual_by_module, residual_by_mask, residual_only_if_dropped],
    "noam_learning_rate": [noam_by_cases, noam_by_math, noam_from_the_peak, noam_by_logarithms],
    "label_smoothing_loss": [
        loss_by_distribution,
        loss_by_nll,
        loss_by_logsumexp,
        loss_by_where,
        loss_token_by_token,
    ],
}

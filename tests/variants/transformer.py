"""Right kernels of "The Transformer" in other styles."""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference import transformer as reference
from autograder.reference.self_attention import sinusoidal_positions
from tests.variants.multi_head_attention import Einsum, ExponentialsTimesMask, LoopOverHeads

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


# EncoderBlock


def fused_attention(layer, query, key, key_mask=None, is_causal=False):
    """PyTorch's fused attention with the projections of a layer; keys and values are of one sequence."""
    W_Q, W_K, W_V = layer.in_proj_weight.chunk(3)
    b_Q, b_K, b_V = layer.in_proj_bias.chunk(3)
    projected = F.linear(query, W_Q, b_Q), F.linear(key, W_K, b_K), F.linear(key, W_V, b_V)
    Q, K, V = (x.unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2) for x in projected)
    attn_mask = None if key_mask is None else key_mask[..., None, None, :]
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask, is_causal=is_causal)
    return layer.out_proj(heads.transpose(-3, -2).flatten(-2))


def fused_norm(norm, x):
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


class EncoderByModules(reference.EncoderBlock):
    def forward(self, x, key_mask=None):
        x = self.norm1(x + F.dropout(self.self_attn(x, x, x, None, key_mask), self.dropout, self.training))
        return self.norm2(x + F.dropout(self.linear2(self.linear1(x).relu()), self.dropout, self.training))


class EncoderByFusedAttention(reference.EncoderBlock):
    def forward(self, x, key_mask=None):
        drop = nn.Dropout(self.dropout).train(self.training)
        x = fused_norm(self.norm1, x + drop(fused_attention(self.self_attn, x, x, key_mask)))
        return fused_norm(self.norm2, x + drop(self.linear2(F.relu(self.linear1(x)))))


class EncoderHeadByHead(reference.EncoderBlock):
    def forward(self, x, key_mask=None):
        dropout = self.dropout * self.training
        attn_output = LoopOverHeads.forward(self.self_attn, x, x, x, key_mask=key_mask)
        x = residual_by_module(x, attn_output, self.norm1.weight, self.norm1.bias, dropout)
        hidden = feed_by_einsum(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_by_module(x, hidden, self.norm2.weight, self.norm2.bias, dropout)


class EncoderBySublayers(reference.EncoderBlock):
    """Each sub-layer as a function, and one way to wrap it."""

    def wrap(self, x, sublayer, norm):
        output = sublayer(x)
        if self.training:
            output = torch.dropout(output, self.dropout, True)
        return norm_by_var_mean(output + x, norm.weight, norm.bias)

    def forward(self, x, key_mask=None):
        x = self.wrap(x, lambda x: Einsum.forward(self.self_attn, x, x, x, key_mask=key_mask), self.norm1)
        network = nn.Sequential(self.linear1, nn.ReLU(), self.linear2)
        return self.wrap(x, network, self.norm2)


class EncoderSentenceBySentence(reference.EncoderBlock):
    """The padding of each sentence is left out of its keys."""

    def forward(self, x, key_mask=None):
        if x.dim() > 2:
            masks = [None] * len(x) if key_mask is None else key_mask
            return torch.stack([self(sentence, mask) for sentence, mask in zip(x, masks, strict=True)])
        real = x if key_mask is None else x[key_mask]
        scale = self.training and self.dropout
        x = residual_by_pytorch(x, self.self_attn(x, real, real), self.norm1.weight, self.norm1.bias, scale)
        hidden = feed_by_where(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_by_pytorch(x, hidden, self.norm2.weight, self.norm2.bias, scale)


# DecoderBlock


class DecoderByModules(reference.DecoderBlock):
    def forward(self, x, memory, memory_key_mask=None):
        past = torch.ones(x.size(-2), x.size(-2), dtype=torch.bool).tril()
        x = self.norm1(x + F.dropout(self.self_attn(x, x, x, past), self.dropout, self.training))
        looked_up = self.multihead_attn(query=x, key=memory, value=memory, key_mask=memory_key_mask)
        x = self.norm2(x + F.dropout(looked_up, self.dropout, self.training))
        return self.norm3(x + F.dropout(self.linear2(self.linear1(x).clamp(min=0)), self.dropout, self.training))


class DecoderByFusedAttention(reference.DecoderBlock):
    def forward(self, x, memory, memory_key_mask=None):
        drop = nn.Dropout(self.dropout).train(self.training)
        x = fused_norm(self.norm1, drop(fused_attention(self.self_attn, x, x, is_causal=True)) + x)
        x = fused_norm(self.norm2, drop(fused_attention(self.multihead_attn, x, memory, memory_key_mask)) + x)
        return fused_norm(self.norm3, drop(self.linear2(F.relu(self.linear1(x)))) + x)


class DecoderHeadByHead(reference.DecoderBlock):
    def forward(self, x, memory, memory_key_mask=None):
        dropout = self.dropout if self.training else 0
        future = torch.triu(torch.ones(x.shape[-2], x.shape[-2]), diagonal=1) > 0
        attn_output = LoopOverHeads.forward(self.self_attn, x, x, x, ~future)
        x = residual_by_module(x, attn_output, self.norm1.weight, self.norm1.bias, dropout)
        attn_output = LoopOverHeads.forward(self.multihead_attn, x, memory, memory, key_mask=memory_key_mask)
        x = residual_by_module(x, attn_output, self.norm2.weight, self.norm2.bias, dropout)
        hidden = feed_by_products(x, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias)
        return residual_by_module(x, hidden, self.norm3.weight, self.norm3.bias, dropout)


class DecoderBySublayers(reference.DecoderBlock):
    def forward(self, x, memory, memory_key_mask=None):
        places = torch.arange(x.shape[-2])
        sublayers = (
            lambda x: ExponentialsTimesMask.forward(self.self_attn, x, x, x, places[:, None] >= places),
            lambda x: ExponentialsTimesMask.forward(self.multihead_attn, x, memory, memory, key_mask=memory_key_mask),
            lambda x: self.linear2(torch.relu(self.linear1(x))),
        )
        for sublayer, norm in zip(sublayers, (self.norm1, self.norm2, self.norm3), strict=True):
            output = sublayer(x)
            x = norm_by_sums(x + nn.functional.dropout(output, self.dropout, self.training), norm.weight, norm.bias)
        return x


class DecoderWordByWord(reference.DecoderBlock):
    """Each target word alone, with those before it as its keys: no mask is needed."""

    def forward(self, x, memory, memory_key_mask=None):
        drop = nn.Dropout(self.dropout if self.training else 0.0)
        words = []
        for t in range(x.shape[-2]):
            word, past = x[..., t : t + 1, :], x[..., : t + 1, :]
            word = self.norm1(word + drop(self.self_attn(word, past, past)))
            word = self.norm2(word + drop(self.multihead_attn(word, memory, memory, None, memory_key_mask)))
            words.append(self.norm3(word + drop(self.linear2(self.linear1(word).relu()))))
        return torch.cat(words, dim=-2)


# Transformer


class ModelByProducts(reference.Transformer):
    """Rows of the embedding by indexing, the output layer by a matrix product."""

    def embed(self, tokens, embedding):
        width = embedding.weight.shape[1]
        x = embedding.weight[tokens] * width**0.5
        positions = sinusoidal_positions(tokens.shape[-1], width).to(x.dtype)
        return F.dropout(positions + x, p=self.dropout, training=self.training)

    def decode(self, target_in, memory, key_mask=None):
        x = self.embed(target_in, self.target_embedding)
        for layer in range(len(self.decoder)):
            x = self.decoder[layer](x, memory, memory_key_mask=key_mask)
        return x @ self.target_embedding.weight.T


class ModelByOneHot(reference.Transformer):
    """Words as one-hot vectors, so that embedding and output layer are the same matrix, used in both directions."""

    def embed(self, tokens, embedding):
        W = embedding.weight * math.sqrt(embedding.embedding_dim)
        x = F.one_hot(tokens, embedding.num_embeddings).to(W.dtype) @ W
        x = x + sinusoidal_positions(x.shape[-2], x.shape[-1]).to(x)
        return nn.Dropout(self.dropout)(x) if self.training else x

    def decode(self, target_in, memory, key_mask=None):
        x = self.embed(target_in, self.target_embedding)
        x = functools.reduce(lambda x, block: block(x, memory, key_mask), self.decoder, x)
        return torch.einsum("...d,vd->...v", x, self.target_embedding.weight)


class ModelInOnePiece(reference.Transformer):
    """Everything in ``forward``; the two halves stand beside it."""

    def forward(self, source, target_in, key_mask=None):
        width = self.source_embedding.embedding_dim
        positions = sinusoidal_positions(max(source.shape[-1], target_in.shape[-1]), width)
        memory = self.source_embedding(source).mul(math.sqrt(width)) + positions[: source.shape[-1]]
        x = self.target_embedding(target_in).mul(math.sqrt(width)) + positions[: target_in.shape[-1]]
        drop = nn.Dropout(self.dropout).train(self.training)
        x, memory = drop(x), drop(memory)
        for block in self.encoder:
            memory = block(memory, key_mask)
        for block in self.decoder:
            x = block(x, memory, key_mask)
        return x.matmul(self.target_embedding.weight.mT)


class ModelPrefixByPrefix(reference.Transformer):
    """Scores the next word of each prefix apart, as in decoding."""

    def decode(self, target_in, memory, key_mask=None):
        scores = []
        for t in range(1, target_in.shape[-1] + 1):
            x = self.embed(target_in[..., :t], self.target_embedding)
            for block in self.decoder:
                x = block(x, memory, key_mask)
            scores.append(F.linear(x[..., -1, :], self.target_embedding.weight))
        return torch.stack(scores, dim=-2)


class ModelSentenceBySentence(reference.Transformer):
    """One sentence pair at a time, its padding cut off."""

    def forward(self, source, target_in, key_mask=None):
        if source.dim() == 1:
            real = source if key_mask is None else source[key_mask]
            return self.decode(target_in, self.encode(real))
        masks = [None] * len(source) if key_mask is None else key_mask
        return torch.stack([self(*sentence) for sentence in zip(source, target_in, masks, strict=True)])


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
    "EncoderBlock": [
        EncoderByModules,
        EncoderByFusedAttention,
        EncoderHeadByHead,
        EncoderBySublayers,
        EncoderSentenceBySentence,
    ],
    "DecoderBlock": [
        DecoderByModules,
        DecoderByFusedAttention,
        DecoderHeadByHead,
        DecoderBySublayers,
        DecoderWordByWord,
    ],
    "Transformer": [ModelByProducts, ModelByOneHot, ModelInOnePiece, ModelPrefixByPrefix, ModelSentenceBySentence],
    "noam_learning_rate": [noam_by_cases, noam_by_math, noam_from_the_peak, noam_by_logarithms],
    "label_smoothing_loss": [
        loss_by_distribution,
        loss_by_nll,
        loss_by_logsumexp,
        loss_by_where,
        loss_token_by_token,
    ],
}

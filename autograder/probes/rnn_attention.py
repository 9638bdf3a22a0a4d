"""How the kernels of "Attention in the decoder" are exercised."""

from autograder.probing import Unusable, call_numpy, call_torch, describe


def additive_scores(kernel, case):
    return call_torch(kernel, case, outputs=("scores",))


def multiplicative_scores(kernel, case):
    return call_torch(kernel, case, outputs=("scores",))


def masked_softmax(kernel, case):
    return call_torch(kernel, case, outputs=("attn_weights",))


def context_vector(kernel, case):
    return call_torch(kernel, case, outputs=("context",))


def attention_decoder_step(kernel, case):
    return call_torch(kernel, case, outputs=("s_new", "context", "attn_weights"))


def alignment_error_rate(kernel, case):
    """Hands over sets of pairs, which a case keeps as lists, and takes any real number for the rate."""

    def rate(*sentences):
        given = [[{tuple(link) for link in links} for links in of_all] for of_all in sentences]
        returned = kernel(*given)
        if given != [[{tuple(link) for link in links} for links in of_all] for of_all in sentences]:
            raise Unusable("The kernel changed the sets that it was given. Make new ones.")
        try:
            return float(returned)
        except (TypeError, ValueError) as error:
            raise Unusable(f"The rate should be a number; the kernel returned {describe(returned)}.") from error

    return call_numpy(rate, case, outputs=("rate",))

"""Tokens that attention looks at, and what looking costs."""

import numpy as np


def pairs(first, last, window):
    r"""
    Query-key pairs of the tokens at positions ``first + 1 .. last`` under a causal window.

    Parameters
    ----------
    first : numeric
        Tokens already in the cache. [token]
    last : numeric
        Tokens in the cache afterwards, at least ``first``. [token]
    window : numeric
        Tokens that one query sees at most, itself included; ``inf`` for full attention. [token]

    Returns
    -------
    numeric
        Pairs. [token^2]

    Notes
    -----
    .. math:: \sum_{i=f+1}^{l} \min(i, w) = T(v) - T(\min(f, v)) + v\,[l - \max(f, v)], \quad v = \min(w, l)

    with :math:`T(n) = n(n+1)/2`. Lengths that are means make it an interpolation between whole lengths.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention is all you need," NeurIPS 2017, table 1; the sum is arithmetic.

    Examples
    --------
    >>> float(pairs(0, 4, np.inf)), float(pairs(2, 6, 3))
    (10.0, 12.0)
    """
    widest = np.minimum(window, last)
    narrow = np.minimum(first, widest)
    growing = (widest * (widest + 1.0) - narrow * (narrow + 1.0)) / 2.0
    return growing + widest * (last - np.maximum(first, widest))


def mean_within(context, window):
    r"""
    Mean tokens that a sequence caught running sees through a window, when only its mean context is known.

    Parameters
    ----------
    context : numeric
        Mean context. [token]
    window : numeric
        Tokens seen at most; ``inf`` for full attention. [token]

    Returns
    -------
    numeric
        Tokens. [token]

    Notes
    -----
    .. math:: E[\min(c, w)] = \bar c\,(1 - e^{-w/\bar c})

    for exponentially spread contexts; serving mixes young and old sequences.

    References
    ----------
    .. [1] Mean of a censored exponential variable.

    Examples
    --------
    >>> float(mean_within(1000.0, np.inf))
    1000.0
    """
    return -context * np.expm1(-window / context)


def chunk_pairs(first, last, chunk):
    r"""
    Query-key pairs of the tokens at positions ``first + 1 .. last`` when a token sees only its own chunk.

    Parameters
    ----------
    first, last : numeric
        Tokens in the cache before and after. [token]
    chunk : numeric
        Length of a chunk. [token]

    Returns
    -------
    numeric
        Pairs. [token^2]

    Notes
    -----
    .. math:: S(l) - S(f), \quad S(n) = \lfloor n/c \rfloor\,T(c) + T(n \bmod c)

    References
    ----------
    .. [1] Meta, "The Llama 4 herd," 2025: chunked attention of ``attention_chunk_size`` tokens; the sum is arithmetic.

    Examples
    --------
    >>> float(chunk_pairs(0, 6, 4))
    13.0
    """
    def up_to(n):
        whole, rest = np.floor(n / chunk), np.mod(n, chunk)
        return whole * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2

    return up_to(last) - up_to(first)


def flops(token_pairs, query_heads, key_width, value_width):
    r"""
    Arithmetic of attention scores and their weighted sum, in one layer.

    Parameters
    ----------
    token_pairs : numeric
        Query-key pairs. [token^2]
    query_heads : numeric
        Query heads.
    key_width, value_width : numeric
        Elements of a head's key and value.

    Returns
    -------
    numeric
        Arithmetic. [FLOP]

    Notes
    -----
    .. math:: F = 2\,n\,H\,(d_k + d_v)

    A multiplication and an addition count as two. Softmax is left out: it is below 2 % at head widths from 64.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention is all you need," NeurIPS 2017, eq. 1.

    Examples
    --------
    >>> float(flops(1, query_heads=32, key_width=128, value_width=128))
    16384.0
    """
    return 2.0 * token_pairs * query_heads * (key_width + value_width)

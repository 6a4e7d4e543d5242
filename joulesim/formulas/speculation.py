"""Drafted tokens: how many are proposed, verified and accepted in a round."""

import numpy as np


def tokens_per_round(acceptance):
    r"""
    Expected tokens of a round, the target's own token included.

    Parameters
    ----------
    acceptance : sequence of numeric
        Probability that the drafted token at each position is accepted, given that those before it were.

    Returns
    -------
    numeric
        Tokens. [token]

    Notes
    -----
    .. math:: 1 + \sum_{i=1}^{k} \prod_{j=1}^{i} \alpha_j \;\xrightarrow{\alpha_j = \alpha}\; \sum_{i=0}^{k} \alpha^i

    Finite at :math:`\alpha = 1`, where it is :math:`k + 1`. Survivors are easier: with measured positions the sum is
    larger than with their mean.

    References
    ----------
    .. [1] Y. Leviathan, M. Kalman, and Y. Matias, "Fast inference from transformers via speculative decoding,"
       ICML 2023, eq. 1. arXiv:2211.17192

    Examples
    --------
    >>> round(float(tokens_per_round([0.8] * 4)), 4)
    3.3616
    """
    return 1.0 + sum(np.cumprod(np.asarray(acceptance, float), axis=0), np.float64(0.0))


def draft_acceptance_rate(acceptance):
    r"""
    Accepted over drafted tokens when every round drafts all positions.

    Parameters
    ----------
    acceptance : sequence of numeric
        As in :func:`tokens_per_round`.

    Returns
    -------
    numeric
        Rate. [1]

    Notes
    -----
    .. math:: \frac{1}{k} \sum_{i=1}^{k} \prod_{j=1}^{i} \alpha_j

    Not the acceptance probability: tokens behind a rejected one count as drafted too.

    References
    ----------
    .. [1] As :func:`tokens_per_round`.

    Examples
    --------
    >>> round(float(draft_acceptance_rate([0.8] * 4)), 2)
    0.59
    """
    return (tokens_per_round(acceptance) - 1.0) / len(acceptance)


def probability_of_rate(rate, draft_length):
    r"""
    Acceptance probability whose rounds accept a given share of what they draft.

    Parameters
    ----------
    rate : numeric
        Accepted over drafted. [1]
    draft_length : int
        Tokens drafted in every round. [token]

    Returns
    -------
    numeric
        Acceptance probability, the same at every position. [1]

    Notes
    -----
    The root of :math:`\sum_{i=1}^k \alpha^i = k r` on :math:`[0, 1]`, by bisection: the sum rises with :math:`\alpha`.

    References
    ----------
    .. [1] As :func:`tokens_per_round`.

    Examples
    --------
    >>> round(float(probability_of_rate(0.5904, 4)), 4)
    0.8
    """
    low, high = np.zeros_like(np.asarray(rate, float)), np.ones_like(np.asarray(rate, float))
    for _ in range(60):
        middle = (low + high) / 2.0
        below = sum(middle**i for i in range(1, draft_length + 1)) < draft_length * rate
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2.0


def passing(confidence, drafted, accepted, threshold):
    r"""
    Share of drafted tokens whose confidence reaches a threshold, and how many of those are accepted.

    Parameters
    ----------
    confidence : array_like
        Lower edge of each bin of the draft model's own probability. [1]
    drafted : array_like
        Drafted tokens in each bin.
    accepted : array_like
        Those of them that the target accepts.
    threshold : numeric
        Least confidence at which drafting goes on. [1]

    Returns
    -------
    tuple of numeric
        Share that passes, and acceptance probability of what passes; 0 where nothing does. [1]

    Notes
    -----
    A bin that the threshold cuts passes in part, in proportion to its width: the curve is a step function.

    References
    ----------
    .. [1] ggml-org/llama.cpp ``common/speculative.cpp``, ``p_min``.

    Examples
    --------
    >>> tuple(float(v) for v in passing([0.0, 0.5], [50, 50], [10, 40], 0.5))
    (0.5, 0.8)
    """
    low, drafted, accepted = (np.asarray(v, float) for v in (confidence, drafted, accepted))
    high = np.append(low[1:], 1.0)
    over = np.clip((high - threshold) / (high - low), 0.0, 1.0)
    passed = np.sum(over * drafted)
    return passed / np.sum(drafted), np.sum(over * accepted) / np.where(passed > 0, passed, 1.0)


def lengths_drafted(draft_length, passing_share):
    r"""
    Probability of each number of tokens offered for verification.

    Parameters
    ----------
    draft_length : int
        Most tokens that a round drafts. [token]
    passing_share : float
        Probability that a drafted token is confident enough; 1 without a threshold.

    Returns
    -------
    numpy.ndarray
        Probability of 0 .. ``draft_length`` tokens.

    Notes
    -----
    .. math:: P(D = d) = q^d (1 - q), \quad d < k; \qquad P(D = k) = q^k

    The first token below the threshold ends the draft and is not offered.

    References
    ----------
    .. [1] As :func:`passing`.

    Examples
    --------
    >>> [float(p) for p in lengths_drafted(2, 0.5)]
    [0.5, 0.25, 0.25]
    """
    offered = passing_share ** np.arange(draft_length + 1.0)
    return offered - np.append(offered[1:], 0.0)


def draft_calls(draft_length, passing_share):
    r"""
    Calls of the draft model in a round.

    Parameters
    ----------
    draft_length : int
        Most tokens that a round drafts. [token]
    passing_share : float
        As in :func:`lengths_drafted`.

    Returns
    -------
    float
        Calls. [1]

    Notes
    -----
    .. math:: \sum_{i=0}^{k-1} q^i

    The token that ends a draft was computed as well.

    References
    ----------
    .. [1] As :func:`passing`.

    Examples
    --------
    >>> float(draft_calls(3, 0.5))
    1.75
    """
    return np.sum(passing_share ** np.arange(draft_length, dtype=float))


def best_case_ratio(plain, verify, draft, draft_length):
    r"""
    Cost of a token with every draft accepted, over plain decoding: above 1 the drafter pays at no acceptance.

    Parameters
    ----------
    plain : numeric
        Time or energy of a plain step.
    verify : numeric
        That of a call of ``draft_length + 1`` tokens.
    draft : numeric
        That of one draft call; 0 for copying from the prompt.
    draft_length : numeric
        Tokens drafted. [token]

    Returns
    -------
    numeric
        Ratio. [1]

    Notes
    -----
    .. math:: \frac{c(k + 1) + k\,d}{(k + 1)\,c(1)}

    References
    ----------
    .. [1] As :func:`tokens_per_round`, section 3.3.

    Examples
    --------
    >>> float(best_case_ratio(plain=1.0, verify=1.0, draft=1.5, draft_length=4))
    1.4
    """
    return (verify + draft_length * draft) / ((draft_length + 1.0) * plain)

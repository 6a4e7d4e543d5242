"""Lengths of requests as nodes and weights, so that costs are integrated instead of taken at the mean."""

import functools
import math

import numpy as np

_NODES = 64
_FURTHEST = 8.0
_GROUPS = 32


def lognormal_nodes(mean, sd, maximum):
    r"""
    Quadrature nodes of a log-normal length, cut at a maximum.

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation before the cut. [token]
    maximum : float
        Longest length; what lies above is put there. ``inf`` for no cut. [token]

    Returns
    -------
    tuple of numpy.ndarray
        Lengths [token] and their weights, which sum to 1.

    Notes
    -----
    .. math:: s^2 = \ln(1 + \sigma^2/\mu^2), \quad m = \ln\mu - s^2/2

    Gauss-Legendre in the normal score below the cut, and one node for the tail above it.

    References
    ----------
    .. [1] W. H. Press et al., "Numerical Recipes," 3rd ed., section 4.6 (Gaussian quadrature).

    Examples
    --------
    >>> x, w = lognormal_nodes(500.0, 400.0, math.inf)
    >>> round(float(x @ w), 6), round(float(x**2 @ w) / (500**2 + 400**2), 6)
    (500.0, 1.0)
    """
    s = math.sqrt(math.log1p((sd / mean) ** 2))
    m = math.log(mean) - s * s / 2
    top = min((math.log(maximum) - m) / s, _FURTHEST + s) if math.isfinite(maximum) else _FURTHEST + 2 * s
    x, w = _gauss_legendre()
    bottom = min(-_FURTHEST, top)
    score = bottom + (top - bottom) * (x + 1) / 2
    weight = w * (top - bottom) / 2 * np.exp(-score**2 / 2) / math.sqrt(2 * math.pi)
    length = np.minimum(np.exp(m + s * score), maximum)
    if math.isfinite(maximum):
        tail = 0.5 * math.erfc(top / math.sqrt(2))
        length, weight = np.append(length, maximum), np.append(weight, tail)
    return length, weight / weight.sum()


@functools.cache
def _gauss_legendre():
    """Nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(_NODES)


def histogram_nodes(edges, counts):
    r"""
    Quadrature nodes of binned lengths, uniform within a bin.

    Parameters
    ----------
    edges : array_like
        Bin edges, one more than ``counts``. [token]
    counts : array_like
        Requests in each bin.

    Returns
    -------
    tuple of numpy.ndarray
        Lengths [token] and their weights, which sum to 1.

    Notes
    -----
    Two Gauss-Legendre nodes a bin, at :math:`c \pm h/\sqrt{3}`: exact up to cubic costs within a bin.

    References
    ----------
    .. [1] W. H. Press et al., "Numerical Recipes," 3rd ed., section 4.6.

    Examples
    --------
    >>> x, w = histogram_nodes([0, 100], [5])
    >>> round(float(x @ w), 9), round(float(x**2 @ w), 6)
    (50.0, 3333.333333)
    """
    edges, counts = np.asarray(edges, float), np.asarray(counts, float)
    centre, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    length = np.concatenate([centre - half / math.sqrt(3), centre + half / math.sqrt(3)])
    weight = np.concatenate([counts, counts]) / (2 * counts.sum())
    return length, weight


def groups(lengths, weight):
    r"""
    Lengths gathered into few groups of equal weight, for costs that are dear to evaluate.

    Parameters
    ----------
    lengths : numeric
        Lengths, one a node. [token]
    weight : numpy.ndarray or None
        Weight of each node; ``None`` when ``lengths`` is not a distribution.

    Returns
    -------
    list of tuple
        Mean length and weight of each group; the weights sum to 1.

    Notes
    -----
    Sorted nodes are cut into 32 groups; a cost that is convex within a group is under-stated by its curvature there.

    References
    ----------
    .. [1] Midpoint rule over the quantile function.

    Examples
    --------
    >>> groups(7.0, None)
    [(7.0, 1.0)]
    """
    if weight is None:
        return [(lengths, 1.0)]
    order = np.argsort(lengths, kind="stable")
    values, shares = lengths[order], weight[order]
    group = np.minimum((np.cumsum(shares) - shares / 2) * _GROUPS, _GROUPS - 1).astype(int)
    total = np.bincount(group, shares, _GROUPS)
    means = np.bincount(group, shares * values, _GROUPS) / np.where(total > 0, total, 1.0)
    return [(float(m), float(t)) for m, t in zip(means, total, strict=True) if t > 0]

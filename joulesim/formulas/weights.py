"""Traffic over the weights: passes, and experts touched."""

import numpy as np


def weight_passes(rows, rows_per_pass):
    r"""
    Times that a call reads the weights.

    Parameters
    ----------
    rows : numeric
        Tokens in the call. [token]
    rows_per_pass : numeric
        Tokens that the kernels serve with one pass; ``inf`` for a tiled matrix product. [token]

    Returns
    -------
    numeric
        Passes over the weights. [1]

    Notes
    -----
    .. math:: n = \max(1, \lceil N / r \rceil)

    Matrix-vector kernels serve few rows and start again for the next ones: this is why a second sequence can
    save nothing. Where kernels change with ``rows`` the regime is a step; measured curves replace it.

    References
    ----------
    .. [1] Derived: each pass loads every block once and multiplies it with the rows at hand.

    Examples
    --------
    >>> float(weight_passes(9, 8))
    2.0
    """
    return np.maximum(1.0, np.ceil(rows / rows_per_pass))


def distinct_experts(rows, routed, per_token, skew):
    r"""
    Expected number of routed experts that a call touches in one layer.

    Parameters
    ----------
    rows : numeric
        Tokens in the call. [token]
    routed : numeric
        Routed experts of the layer.
    per_token : numeric
        Experts each token is sent to.
    skew : numeric
        Shape of the gamma distribution of the experts' popularity; ``inf`` for uniform routing.

    Returns
    -------
    numeric
        Experts whose weights are read. [1]

    Notes
    -----
    .. math:: E\,\left(1 - \left(1 + \frac{k N}{E a}\right)^{-a}\right)
       \;\xrightarrow{a \to \infty}\; E\,\left(1 - (1 - k/E)^N\right)

    An expert of popularity :math:`\lambda` is missed by :math:`N` tokens with probability
    :math:`e^{-\lambda k N / E}`, averaged over the gamma distribution. The uniform limit is exact for independent
    tokens. At one token both give about :math:`k`; the result is never below it.

    References
    ----------
    .. [1] Linearity of expectation; Laplace transform of the gamma distribution.

    Examples
    --------
    >>> float(distinct_experts(1, routed=128, per_token=8, skew=float("inf")))
    8.0
    """
    load = rows * per_token / routed
    uniform = -np.expm1(rows * np.log1p(-np.minimum(per_token / routed, 1.0 - 1e-16)))
    with np.errstate(invalid="ignore"):
        skewed = -np.expm1(-skew * np.log1p(load / skew))
    touched = np.where(np.isinf(skew), uniform, skewed)
    return routed * np.maximum(touched, np.minimum(rows, 1.0) * per_token / routed)

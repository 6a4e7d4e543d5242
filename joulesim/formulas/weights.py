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


def routed_activation_bytes(pairs, outer, inner):
    r"""
    Traffic of the activations of routed experts.

    Parameters
    ----------
    pairs : numeric
        Tokens times the experts that each is sent to on this device. [token]
    outer : numeric
        Elements in the model's width that one token's products with one expert read and write.
    inner : numeric
        The same in the expert's own width.

    Returns
    -------
    numeric
        Traffic beside the weights. [B]

    Notes
    -----
    .. math:: 2\,n\,(o + 2 i)

    Grouped products keep a copy of a token for each of its experts, which no cache on the chip holds for a long prompt.
    The activation function reads and writes what lies between the products once more; elements are 16 bit.

    References
    ----------
    .. [1] Derived: operands and results of each product, as in the arithmetic intensity of
       S. Williams, A. Waterman, and D. Patterson, "Roofline," Commun. ACM 52(4), 2009.

    Examples
    --------
    One token and two experts of width 4 in a model of width 8 (gate and up read 8 and write 4 each, down 4 and 8):

    >>> float(routed_activation_bytes(2, outer=24, inner=12))
    192.0
    """
    return 2.0 * pairs * (outer + 2.0 * inner)

"""Shortest time of a call from its traffic, arithmetic and unpacking."""

import numpy as np

_NO_TIME = 1e-300
"""Stands for 0 where activities that take no time are divided by the longest of them. [s]"""


def overlapped(*times, exponent):
    r"""
    Time of activities that run at the same time.

    Parameters
    ----------
    *times : numeric
        Time that each would take alone. [s]
    exponent : numeric
        How well they overlap: 1 is a sum, infinity the longest alone.

    Returns
    -------
    numeric
        Time together. [s]

    Notes
    -----
    .. math:: t = \Big(\sum_i t_i^p\Big)^{1/p}

    The p-norm lies between the roofline's maximum and the plain sum; one CPU thread has :math:`p = 1`.

    References
    ----------
    .. [1] S. Williams, A. Waterman, and D. Patterson, "Roofline: An insightful visual performance model for
       multicore architectures," Commun. ACM, vol. 52, no. 4, pp. 65-76, 2009. doi:10.1145/1498765.1498785

    Examples
    --------
    >>> float(overlapped(3.0, 4.0, exponent=2.0))
    5.0
    """
    total = times[0]
    for time in times[1:]:  # a p-norm of a p-norm is one of all
        longest = np.maximum(total, time)
        share = np.minimum(total, time) / np.maximum(longest, _NO_TIME)
        total = longest * (1.0 + share**exponent) ** (1.0 / exponent)
    return total


def share_of(time, other, exponent):
    r"""
    How much of the time of two overlapping activities follows the first one.

    Parameters
    ----------
    time, other : numeric
        Time that each would take alone. [s]
    exponent : numeric
        As in :func:`overlapped`.

    Returns
    -------
    numeric
        Relative change of the time together for a relative change of the first: 1 where the first alone counts. [1]

    Notes
    -----
    .. math:: \frac{\partial \ln t}{\partial \ln t_1} = \frac{t_1^p}{t_1^p + t_2^p}

    References
    ----------
    .. [1] As :func:`overlapped`.

    Examples
    --------
    >>> float(share_of(3.0, 4.0, exponent=2.0))
    0.36
    """
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + (other / np.maximum(time, _NO_TIME)) ** exponent)


def arithmetic_intensity(flops, bytes_moved):
    r"""
    Arithmetic per byte of device-memory traffic.

    Parameters
    ----------
    flops : numeric
        Arithmetic. [FLOP]
    bytes_moved : numeric
        Traffic. [B]

    Returns
    -------
    numeric
        Intensity. [FLOP/B]

    Notes
    -----
    .. math:: I = F / Q

    Below the ridge point (peak arithmetic over peak bandwidth) a call is memory-bound.

    References
    ----------
    .. [1] S. Williams et al., Commun. ACM 52(4), 2009. doi:10.1145/1498765.1498785

    Examples
    --------
    >>> float(arithmetic_intensity(16.0, 8.0))
    2.0
    """
    return flops / bytes_moved

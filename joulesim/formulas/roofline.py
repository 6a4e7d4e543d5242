"""Shortest time of a call from its traffic, arithmetic and unpacking."""

import numpy as np


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
    longest = times[0]
    for time in times[1:]:
        longest = np.maximum(longest, time)
    scale = np.where(longest > 0, longest, 1.0)
    total = sum((time / scale) ** exponent for time in times)
    return longest * total ** (1.0 / exponent)


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

"""A roofline read backwards: what a measured rate says about batch and bandwidth."""

from __future__ import annotations


def least_batch(throughput, weight_bytes, bandwidth, cache_bytes=0.0):
    r"""
    Fewest sequences that must share a pass over the weights for memory to allow a throughput.

    Parameters
    ----------
    throughput : numeric
        Output tokens of one device. [token/s]
    weight_bytes : numeric
        Weights that a pass reads. [B]
    bandwidth : numeric
        Memory rate of the device. [B/s]
    cache_bytes : numeric
        Cache that each sequence reads in a step; 0 for the weights alone. [B/token]

    Returns
    -------
    numeric
        Sequences, negative or infinite where the caches alone need more than the bandwidth. [1]

    Notes
    -----
    A step of b sequences reads W + b k bytes in at least (W + b k) / \beta seconds and yields b tokens, so

    .. math:: b \ge \frac{r W}{\beta - r k}

    References
    ----------
    .. [1] S. Williams, A. Waterman, and D. Patterson, "Roofline: An insightful visual performance model for multicore
       architectures," Commun. ACM, vol. 52, no. 4, pp. 65-76, Apr. 2009. doi:10.1145/1498765.1498785

    Examples
    --------
    >>> round(float(least_batch(throughput=12680.0, weight_bytes=35e9, bandwidth=7.7e12)), 1)
    57.6
    """
    return throughput * weight_bytes / (bandwidth - throughput * cache_bytes)


def bandwidth_share(throughput, batch, weight_bytes, bandwidth, cache_bytes=0.0):
    r"""
    Share of the memory rate that a throughput uses at a batch.

    Parameters
    ----------
    throughput : numeric
        Output tokens of one device. [token/s]
    batch : numeric
        Sequences that share a pass over the weights. [1]
    weight_bytes : numeric
        Weights that a pass reads. [B]
    bandwidth : numeric
        Memory rate of the device. [B/s]
    cache_bytes : numeric
        Cache that each sequence reads in a step. [B/token]

    Returns
    -------
    numeric
        Bytes per second over the memory rate; above 1 the batch is too small to explain the throughput. [1]

    Notes
    -----
    .. math:: s = \frac{r (W / b + k)}{\beta}

    References
    ----------
    .. [1] S. Williams, A. Waterman, and D. Patterson, "Roofline: An insightful visual performance model for multicore
       architectures," Commun. ACM, vol. 52, no. 4, pp. 65-76, Apr. 2009. doi:10.1145/1498765.1498785

    Examples
    --------
    >>> bandwidth_share(throughput=100.0, batch=1.0, weight_bytes=16e9, bandwidth=3.2e12)
    0.5
    """
    return throughput * (weight_bytes / batch + cache_bytes) / bandwidth

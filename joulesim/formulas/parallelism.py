"""What is split over devices, what is copied, and what travels between them."""

import numpy as np

_REFERENCE_INSTRUCTIONS_PER_BYTE = 66.9e12 / 2 / 3.35e12
"""Lane instructions per byte of an H100 SXM: fp32 peak over two, over datasheet bandwidth (NVIDIA H100 datasheet)."""


def all_reduce_bytes(size, devices):
    r"""
    Bytes that each device sends in a ring all-reduce.

    Parameters
    ----------
    size : numeric
        Size of the tensor that is reduced. [B]
    devices : numeric
        Devices in the ring.

    Returns
    -------
    numeric
        Bytes sent by one device. [B]

    Notes
    -----
    .. math:: 2\,\frac{n-1}{n}\,S

    References
    ----------
    .. [1] P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations,"
       J. Parallel Distrib. Comput., vol. 69, pp. 117-124, 2009. doi:10.1016/j.jpdc.2008.09.002

    Examples
    --------
    >>> float(all_reduce_bytes(8.0, 4))
    12.0
    """
    return 2.0 * (devices - 1.0) / devices * size


def handover_bytes(size, stages):
    r"""
    Bytes that a call sends from stage to stage of a pipeline.

    Parameters
    ----------
    size : numeric
        Size of the hidden rows of the call. [B]
    stages : numeric
        Stages of the pipeline.

    Returns
    -------
    numeric
        Bytes sent, each from one device to the next. [B]

    Notes
    -----
    .. math:: (n - 1)\,S

    References
    ----------
    .. [1] Y. Huang et al., "GPipe: Efficient training of giant neural networks using pipeline parallelism," NeurIPS, 2019:
       only activations at the seams travel.

    Examples
    --------
    >>> float(handover_bytes(8.0, 4))
    24.0
    """
    return (stages - 1.0) * size


def cache_share(devices, kv_heads):
    r"""
    Share of the KV cache that one device of a tensor-parallel group holds.

    Parameters
    ----------
    devices : numeric
        Devices in the group.
    kv_heads : numeric
        KV heads of the layer; 0 where there are none.

    Returns
    -------
    numeric
        Share.

    Notes
    -----
    .. math:: \max(1/n, 1/h)

    Heads are whole: with more devices than heads they are copied.

    References
    ----------
    .. [1] M. Shoeybi et al., "Megatron-LM," 2019, section 3 (attention heads are split). arXiv:1909.08053

    Examples
    --------
    >>> float(cache_share(8, 4))
    0.25
    """
    return np.maximum(1.0 / devices, 1.0 / np.maximum(kv_heads, 1.0)) if kv_heads else 1.0 / devices


def issue_factor(instruction_rate, memory_bandwidth, exponent):
    r"""
    How far vector issue changes the rate at which attention and gathered experts stream, against an H100.

    Parameters
    ----------
    instruction_rate : numeric
        Lane instructions per second. [instruction/s]
    memory_bandwidth : numeric
        Datasheet bandwidth. [B/s]
    exponent : numeric
        0: bandwidth alone counts; 1: issue alone counts.

    Returns
    -------
    numeric
        Factor on the sustained rate. [1]

    Notes
    -----
    .. math:: \left(\frac{I / B}{(I / B)_{H100}}\right)^{w}

    Bandwidth grew faster than vector issue from Hopper to Blackwell, and these kernels followed in between.

    References
    ----------
    .. [1] Empirical: the exponent is fitted, see ``docs/validation.md``.

    Examples
    --------
    >>> float(issue_factor(66.9e12 / 2, 3.35e12, 0.5))
    1.0
    """
    return (instruction_rate / memory_bandwidth / _REFERENCE_INSTRUCTIONS_PER_BYTE) ** exponent


def collective_latency(hop, devices, exponent):
    r"""
    Time of a collective that carries nothing.

    Parameters
    ----------
    hop : numeric
        Latency between two devices. [s]
    devices : numeric
        Devices in the group.
    exponent : numeric
        1 for a ring, less where hops overlap.

    Returns
    -------
    numeric
        Latency. [s]

    Notes
    -----
    .. math:: \ell\,(n - 1)^{g}

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, and W. Gropp, "Optimization of collective communication operations in MPICH,"
       Int. J. High Perform. Comput. Appl., vol. 19, pp. 49-66, 2005. doi:10.1177/1094342005051521

    Examples
    --------
    >>> float(collective_latency(4e-6, 2, 0.8))
    4e-06
    """
    return hop * (devices - 1.0) ** exponent

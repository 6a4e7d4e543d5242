"""Whether a deployment fits, and how many sequences do."""

import numpy as np


def largest_batch(usable, weights, buffers, shared, per_sequence):
    r"""
    Most sequences that fit beside the weights.

    Parameters
    ----------
    usable : numeric
        Memory the engine may take, reserve already off. [B]
    weights : numeric
        Weights on the device. [B]
    buffers : numeric
        Compute buffers. [B]
    shared : numeric
        Cache held once for all sequences (a shared prefix). [B]
    per_sequence : numeric
        Cache of one sequence. [B]

    Returns
    -------
    numeric
        Whole sequences; 0 when not even one fits, ``inf`` when a sequence keeps nothing.

    Notes
    -----
    .. math:: B = \left\lfloor \frac{M - W - A - K_0}{K} \right\rfloor^+

    References
    ----------
    .. [1] W. Kwon et al., "Efficient memory management for large language model serving with PagedAttention,"
       SOSP 2023, figure 1 (the same budget).

    Examples
    --------
    >>> float(largest_batch(12e9, 4e9, 1e9, 0.0, 0.9e9))
    7.0
    """
    room = usable - weights - buffers - shared
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(per_sequence > 0, np.floor(np.divide(room, per_sequence)), np.inf)
    return np.where(room >= 0, np.maximum(fit, 0.0), 0.0)


def logits_bytes(rows, vocabulary):
    r"""
    Buffer for the output logits of a call, in fp32.

    Parameters
    ----------
    rows : numeric
        Rows for which logits are kept. [token]
    vocabulary : numeric
        Entries of a row.

    Returns
    -------
    numeric
        Buffer. [B]

    Notes
    -----
    .. math:: 4\,N\,V

    References
    ----------
    .. [1] Definition; llama.cpp reserves it for a whole ``n_ubatch`` ("CUDA0 compute buffer size" of its log).

    Examples
    --------
    >>> float(logits_bytes(512, 152064)) / 2**20
    297.0
    """
    return 4.0 * rows * vocabulary

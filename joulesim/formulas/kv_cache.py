"""What a sequence keeps: bytes resident, and bytes that grow with each token."""

import numpy as np


def cells(context, window, block):
    r"""
    Token cells that a layer keeps for one sequence.

    Parameters
    ----------
    context : numeric
        Tokens of the sequence. [token]
    window : numeric
        Most cells the layer keeps; ``inf`` for full attention. [token]
    block : numeric
        Cells allocated together (paged caches); 1 where cells are single. [token]

    Returns
    -------
    numeric
        Cells. [token]

    Notes
    -----
    .. math:: b \lceil \min(n, w) / b \rceil

    References
    ----------
    .. [1] W. Kwon et al., "Efficient memory management for large language model serving with PagedAttention,"
       SOSP 2023, section 4.

    Examples
    --------
    >>> float(cells(1000, np.inf, 16))
    1008.0
    """
    return block * np.ceil(np.minimum(context, window) / block)


def resident_bytes(cell_count, elements, bytes_per_element):
    r"""
    Cache memory of one layer group for one sequence.

    Parameters
    ----------
    cell_count : numeric
        Cells of one layer. [token]
    elements : numeric
        Elements kept per token over the layers of the group. [1/token]
    bytes_per_element : numeric
        Storage of the cache format, block scales included. [B]

    Returns
    -------
    numeric
        Resident bytes. [B]

    Notes
    -----
    .. math:: M = n\,e\,\beta

    References
    ----------
    .. [1] Definition. With q8_0, :math:`\beta` is 34/32 B (ggml block layout).

    Examples
    --------
    >>> float(resident_bytes(1, elements=28 * 2 * 4 * 128, bytes_per_element=2)) / 1024
    56.0
    """
    return cell_count * elements * bytes_per_element

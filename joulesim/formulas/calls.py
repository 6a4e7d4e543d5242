"""What a call of several tokens costs in a kernel of a given kind."""

import numpy as np


def tiled_rows(rows, tile):
    r"""
    Rows that matrix units work on.

    Parameters
    ----------
    rows : numeric
        Tokens in the call. [token]
    tile : numeric
        Rows of a tile; 1 where nothing is padded. [token]

    Returns
    -------
    numeric
        Rows worked on, padded ones included. [token]

    Notes
    -----
    .. math:: T\,\lceil N / T \rceil

    A tile costs the same however many of its rows are wanted: from two tokens to a whole tile a call gains almost
    no time and no energy, which is why time and energy of a call of N tokens are different curves.

    References
    ----------
    .. [1] ggml-org/llama.cpp ``ggml-metal.metal``, ``kernel_mul_mm``: 64 x 32 output tile a threadgroup.

    Examples
    --------
    >>> float(tiled_rows(33, 32))
    64.0
    """
    return tile * np.ceil(rows / tile)


def lane_instructions(rows, passes, unpack, per_row):
    r"""
    Lane instructions that a weight costs in a matrix-vector kernel.

    Parameters
    ----------
    rows : numeric
        Tokens in the call. [token]
    passes : numeric
        Passes over the weights, each of which unpacks them again. [1]
    unpack : numeric
        Instructions that unpack the weights once. [instruction]
    per_row : numeric
        Instructions that multiply the unpacked weights with one row, loads of the row included. [instruction/token]

    Returns
    -------
    numeric
        Instructions. [instruction]

    Notes
    -----
    .. math:: n\,u + N\,v

    Without matrix units every further row is paid in full on the vector lanes; only the unpacking is shared.

    References
    ----------
    .. [1] ggml-org/llama.cpp ``ggml-cuda/mmvq.cu``: one dot product per row and block inside the loop over blocks.

    Examples
    --------
    >>> float(lane_instructions(2, passes=1, unpack=0.5, per_row=1.0))
    2.5
    """
    return passes * unpack + rows * per_row

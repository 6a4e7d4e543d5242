"""Calls that a request is made of, and the engine step they run in."""

import numpy as np

from joulesim.formulas.roofline import overlapped


def chunks(tokens, chunk):
    r"""
    Full prefill calls of a prompt and the rows left for a last one.

    Parameters
    ----------
    tokens : numeric
        Prompt tokens to process. [token]
    chunk : numeric
        Most tokens in one call. [token]

    Returns
    -------
    tuple of numeric
        Full calls, and rows of the last, shorter call (0: there is none). [1], [token]

    Notes
    -----
    .. math:: \lfloor P / C \rfloor, \quad P \bmod C

    References
    ----------
    .. [1] A. Agrawal et al., "Taming throughput-latency tradeoff in LLM inference with Sarathi-Serve," OSDI 2024.

    Examples
    --------
    >>> [float(n) for n in chunks(1100, 512)]
    [2.0, 76.0]
    """
    full = np.floor(tokens / chunk)
    return full, tokens - full * chunk


def step_time(device_time, host_time, exponent):
    r"""
    Time of engine steps from their device work and their host work.

    Parameters
    ----------
    device_time, host_time : numeric
        Work on the device and on the host. [s]
    exponent : numeric
        1 when they take turns; infinity when the host prepares the next step while the device computes.

    Returns
    -------
    numeric
        Time. [s]

    Notes
    -----
    .. math:: t = \left(t_d^{\,q} + t_h^{\,q}\right)^{1/q}

    With asynchronous scheduling the longer of the two sets the pace; jitter of either rounds the corner.

    References
    ----------
    .. [1] vLLM project, "vLLM V1: a major upgrade to vLLM's core architecture," 2025 (asynchronous scheduling).

    Examples
    --------
    >>> float(step_time(4e-3, 1e-3, exponent=1.0))
    0.005
    """
    return overlapped(device_time, host_time, exponent=exponent)


def carrying_steps(admissions, mean_rows, mean_square_rows, chunk):
    r"""
    Share of engine steps that carry prompt rows in a continuous batch.

    Parameters
    ----------
    admissions : numeric
        Requests admitted per step. [request]
    mean_rows, mean_square_rows : numeric
        Mean and mean square of the rows that an admitted request brings. [token], [token^2]
    chunk : numeric
        Most rows in one step. [token]

    Returns
    -------
    numeric
        Share of steps; above 1 when prompts alone take more than a step each. [1]

    Notes
    -----
    .. math:: \max\left(1 - e^{-a s}, \frac{a\,\bar n}{C}\right), \quad s = \bar n^2 / \overline{n^2}

    Admissions are Poisson; of long-tailed prompts only the share :math:`s` brings nearly all rows.

    References
    ----------
    .. [1] Poisson thinning; the effective share is the inverse of the second moment ratio.

    Examples
    --------
    >>> round(float(carrying_steps(0.1, 500.0, 250000.0, 8192)), 4)
    0.0952
    """
    share = mean_rows**2 / np.maximum(mean_square_rows, 1e-300)
    return np.maximum(-np.expm1(-admissions * share), np.maximum(admissions * mean_rows / chunk, 1e-12))


def running_context(prompt, output, weight):
    r"""
    Mean context of a sequence caught running, where it decodes one token a step.

    Parameters
    ----------
    prompt, output : numeric
        Lengths of requests. [token]
    weight : numpy.ndarray or None
        Weight of each request; ``None`` for single numbers.

    Returns
    -------
    numeric
        Context. [token]

    Notes
    -----
    .. math:: \frac{E[L\,(P + L/2)]}{E[L]}

    Long answers are caught more often: for independent lengths this is :math:`E[P] + E[L^2] / 2E[L]`.

    References
    ----------
    .. [1] D. R. Cox, "Renewal Theory," Methuen, 1962, section 5.2 (length-biased sampling).

    Examples
    --------
    >>> float(running_context(100.0, 50.0, None))
    125.0
    """
    middle = prompt + output / 2.0
    return middle if weight is None else np.sum(weight * output * middle) / np.sum(weight * output)

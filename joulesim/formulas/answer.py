"""From requests to correct answers."""

import numpy as np


def energy_per_correct(energy_per_answer, accuracy):
    r"""
    Energy of all answers over the correct ones.

    Parameters
    ----------
    energy_per_answer : numeric
        Energy of one answer, every attempt it took included. [J/answer]
    accuracy : numeric
        Share of answers that are correct.

    Returns
    -------
    numeric
        Energy. [J/correct answer]

    Notes
    -----
    .. math:: E_\checkmark = \frac{\sum_i E_i}{\sum_i \checkmark_i} = \frac{E}{a}

    Wrong, empty and truncated answers stay in the numerator.

    References
    ----------
    .. [1] Definition. A correct answer after :math:`1/a` independent tries costs the same (geometric mean count).

    Examples
    --------
    >>> float(energy_per_correct(55.0, 0.5))
    110.0
    """
    return energy_per_answer / accuracy


def pass_at_k(attempted, correct, k):
    r"""
    Chance that at least one of ``k`` attempts is correct, unbiased from counts of single attempts.

    Parameters
    ----------
    attempted, correct : int
        Attempts scored, and correct ones among them.
    k : int
        Attempts of an answer, at most ``attempted``.

    Returns
    -------
    float
        pass@k.

    Notes
    -----
    .. math:: 1 - \binom{n-c}{k} \Big/ \binom{n}{k} = 1 - \prod_{i=n-c+1}^{n} \left(1 - \frac{k}{i}\right)

    References
    ----------
    .. [1] M. Chen et al., "Evaluating large language models trained on code," 2021, eq. 1. arXiv:2107.03374

    Examples
    --------
    >>> round(float(pass_at_k(10, 3, 5)), 6)
    0.916667
    """
    fewer, more = min(correct, k), max(correct, k)  # the quotient is symmetric in the two
    misses = np.arange(attempted - fewer + 1, attempted + 1)
    return 1.0 - np.prod(np.maximum(1.0 - more / misses, 0.0))


def wilson(correct, attempted, z):
    r"""
    Score interval of a share from counts.

    Parameters
    ----------
    correct, attempted : numeric
        Successes and trials, at least one trial.
    z : numeric
        Standard normal quantile of the level: 1.96 for 95 %.

    Returns
    -------
    tuple of numeric
        Low and high end.

    Notes
    -----
    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and statistical inference," J. Am. Stat.
       Assoc., vol. 22, pp. 209-212, 1927. doi:10.1080/01621459.1927.10502953

    Examples
    --------
    >>> [round(float(end), 3) for end in wilson(99, 198, 1.959964)]
    [0.431, 0.569]
    """
    share = correct / attempted
    centre = share + z**2 / (2 * attempted)
    half = z * np.sqrt(share * (1 - share) / attempted + z**2 / (4 * attempted**2))
    scale = 1 + z**2 / attempted
    return np.maximum((centre - half) / scale, 0.0), np.minimum((centre + half) / scale, 1.0)

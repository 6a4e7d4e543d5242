"""What a power limit does to a call."""

import numpy as np


def clock_factor(limit, static_power, memory_energy, chip_energy, time, voltage_share):
    r"""
    Clock, as a share of the clock at which ``time`` holds, that keeps the average power within a limit.

    Parameters
    ----------
    limit : numeric
        Power limit at the boundary of the energies; ``inf`` for none. [W]
    static_power : numeric
        Power that does not depend on the clock. [W]
    memory_energy : numeric
        Energy of the memory traffic. [J]
    chip_energy : numeric
        Energy of everything on the chip at full clock: arithmetic, unpacking, clock tree. [J]
    time : numeric
        Time of the work at full clock. [s]
    voltage_share : numeric
        Share of ``chip_energy`` that falls away as the clock goes to zero, because voltage falls with it.

    Returns
    -------
    numeric
        Clock factor, at most 1; 0 or less cannot be: not even the static power fits (``nan``).

    Notes
    -----
    Work slows as :math:`t/s`; an operation on the chip costs :math:`1 - \psi(1 - s)` of its energy, a byte from
    memory the same. The limit binds where

    .. math:: P_s + \frac{s}{t}\left[E_m + (1 - \psi) E_c\right] + \frac{s^2}{t}\,\psi E_c = P_{max}

    whose positive root is returned. The linear fall of energy with clock stands for :math:`V^2` over the narrow
    range that limits use.

    References
    ----------
    .. [1] Derived from :math:`P = P_s + C V^2 f` with voltage linear in frequency; see R. Ge et al., "Effects of
       dynamic voltage and frequency scaling on a K20 GPU," ICPP Workshops 2013. doi:10.1109/ICPP.2013.98

    Examples
    --------
    >>> float(clock_factor(100.0, 20.0, 0.0, 160.0, 1.0, 0.0))
    0.5
    """
    budget = limit - static_power
    linear = (memory_energy + (1.0 - voltage_share) * chip_energy) / time
    square = voltage_share * chip_energy / time
    with np.errstate(invalid="ignore", divide="ignore"):
        root = 2.0 * budget / (linear + np.sqrt(linear**2 + 4.0 * square * np.maximum(budget, 0.0)))
        factor = np.where(linear + square <= budget, 1.0, root)
    return np.where(budget > 0, np.minimum(factor, 1.0), np.nan)


def chip_energy_at(factor, chip_energy, voltage_share):
    r"""
    Energy of chip operations at a lowered clock.

    Parameters
    ----------
    factor : numeric
        Clock as a share of full clock.
    chip_energy : numeric
        Their energy at full clock. [J]
    voltage_share : numeric
        Share that falls away as the clock goes to zero.

    Returns
    -------
    numeric
        Energy. [J]

    Notes
    -----
    .. math:: E_c\,(1 - \psi(1 - s))

    References
    ----------
    .. [1] As :func:`clock_factor`.

    Examples
    --------
    >>> float(chip_energy_at(0.5, 10.0, 0.6))
    7.0
    """
    return chip_energy * (1.0 - voltage_share * (1.0 - factor))

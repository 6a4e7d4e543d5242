"""What a power limit does to a call."""

import math

import numpy as np

_STEPS = 12
"""Safeguarded Newton steps on logarithms; three settle most calls."""
_SETTLED = 1e-5
"""Relative size of a step after which the next one, about its square, does not count."""
_FEW = 1000
"""Calls up to which solving for all is quicker than picking those over the limit."""
_BLOCK = 4096
"""Calls solved together: their intermediate arrays stay in the cache."""
_LOWEST = 1e-6
"""Clock below which no root is looked for."""


def time_at(clock, fixed, launched, overlapped, chip_share, exponent):
    r"""
    Time of a call at a lowered chip clock.

    Parameters
    ----------
    clock : numeric
        Clock as a share of full clock.
    fixed : numeric
        Time that the clock does not change: host, links, sampling. [s]
    launched : numeric
        Time between kernels at full clock. [s]
    overlapped : numeric
        Time in which memory traffic and chip operations overlap, at full clock. [s]
    chip_share : numeric
        Share of the chip in the sum of ``exponent``-th powers of the two overlapping times; 1: only the chip counts.
    exponent : numeric
        How well they overlap, as in :func:`joulesim.formulas.roofline.overlapped`.

    Returns
    -------
    numeric
        Time. [s]

    Notes
    -----
    .. math:: t(s) = t_0 + \frac{t_l}{s} + t_o\left[(1 - a) + a s^{-p}\right]^{1/p}

    Memory keeps its own clock: a memory-bound call loses speed only once its chip operations take as long as its
    traffic.

    References
    ----------
    .. [1] R. Ge et al., "Effects of dynamic voltage and frequency scaling on a K20 GPU," ICPP Workshops 2013.
       doi:10.1109/ICPP.2013.98

    Examples
    --------
    >>> float(time_at(0.5, fixed=1.0, launched=0.5, overlapped=2.0, chip_share=1.0, exponent=2.0))
    6.0
    """
    return (
        fixed + launched / clock + overlapped * (1.0 - chip_share + chip_share * clock**-exponent) ** (1.0 / exponent)
    )


def energy_at(clock, energy, voltage_share):
    r"""
    Energy of chip operations at a lowered clock.

    Parameters
    ----------
    clock : numeric
        Clock as a share of full clock.
    energy : numeric
        Their energy at full clock. [J]
    voltage_share : numeric
        Share that falls away as the clock goes to zero, because voltage falls with it.

    Returns
    -------
    numeric
        Energy. [J]

    Notes
    -----
    .. math:: E\,(1 - \psi(1 - s))

    The linear fall stands for :math:`V^2` over the range that limits use.

    References
    ----------
    .. [1] As :func:`time_at`.

    Examples
    --------
    >>> float(energy_at(0.5, 10.0, 0.6))
    7.0
    """
    return energy * (1.0 - voltage_share * (1.0 - clock))


def power_at(clock, static_power, memory_energy, chip_energy, clock_on_power, time, voltage_share):
    r"""
    Average power of a call at a lowered chip clock.

    Parameters
    ----------
    clock : numeric
        Clock as a share of full clock.
    static_power : numeric
        Power that does not depend on the clock. [W]
    memory_energy : numeric
        Energy of the memory traffic. [J]
    chip_energy : numeric
        Energy of arithmetic and unpacking at full clock. [J]
    clock_on_power : numeric
        Power of clock tree and schedulers at full clock, averaged over the call. [W]
    time : numeric
        Time at this clock. [s]
    voltage_share : numeric
        As in :func:`energy_at`.

    Returns
    -------
    numeric
        Power. [W]

    Notes
    -----
    .. math:: P(s) = P_0 + \frac{E_m + E_c v(s)}{t(s)} + s\,v(s) P_a, \qquad v(s) = 1 - \psi(1 - s)

    Memory energy does not change, an operation costs less at the lower voltage, and clock-on power falls with clock and
    voltage although nothing is done faster: this is what a limit saves on memory-bound work.

    References
    ----------
    .. [1] As :func:`time_at`.

    Examples
    --------
    >>> float(power_at(1.0, 20.0, 5.0, 3.0, 12.0, time=0.1, voltage_share=0.5))
    112.0
    """
    v = energy_at(clock, 1.0, voltage_share)
    return static_power + (memory_energy + chip_energy * v) / time + clock * v * clock_on_power


def clock_factor(
    limit,
    static_power,
    memory_energy,
    chip_energy,
    clock_on_power,
    voltage_share,
    fixed,
    launched,
    overlapped,
    chip_share,
    exponent,
):
    r"""
    Clock, as a share of full clock, that keeps the average power of a call within a limit.

    Parameters
    ----------
    limit : numeric
        Power limit at the boundary of the energies; ``inf`` for none. [W]
    static_power, memory_energy, chip_energy, clock_on_power, voltage_share : numeric
        As in :func:`power_at`. [W, J, J, W, 1]
    fixed, launched, overlapped, chip_share, exponent : numeric
        As in :func:`time_at`. [s, s, s, 1, 1]

    Returns
    -------
    numeric
        Clock, at most 1; ``nan`` where not even the static power fits.

    Notes
    -----
    The root of :math:`P(s) = P_{max}`. Power rises with the clock, so bisection brackets
    Newton's steps on :math:`\ln P(\ln s)`.

    References
    ----------
    .. [1] W. H. Press et al., "Numerical Recipes," 3rd ed., section 9.4.

    Examples
    --------
    >>> round(float(clock_factor(100.0, 20.0, 0.0, 160.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0)), 9)
    0.5
    """
    terms = (limit, static_power, memory_energy, chip_energy, clock_on_power, voltage_share, fixed, launched, overlapped,
             chip_share, exponent)
    with np.errstate(all="ignore"):  # no call, no time: nothing is over a limit
        time = fixed + launched + overlapped
        full = power_at(1.0, static_power, memory_energy, chip_energy, clock_on_power, time, voltage_share)
        over, possible = full > limit, limit > static_power
        if not np.any(over):
            return np.where(possible, 1.0, np.nan)
        if np.size(over) < _FEW:
            return np.where(possible, np.where(over, _limited_clock(full, time, *terms), 1.0), np.nan)
        over = np.broadcast_to(over, np.broadcast_shapes(np.shape(full), *map(np.shape, terms)))
        clock = np.ones(over.shape)
        picked = [term if np.ndim(term) == 0 else np.broadcast_to(term, over.shape)[over] for term in (full, time, *terms)]
        clock[over] = np.concatenate([
            _limited_clock(*(term if np.ndim(term) == 0 else term[start:start + _BLOCK] for term in picked))
            for start in range(0, np.count_nonzero(over), _BLOCK)
        ])
    return np.where(possible, clock, np.nan)


def _limited_clock(full, time, limit, static_power, memory_energy, chip_energy, clock_on_power, voltage_share, fixed,
                   launched, overlapped, chip_share, exponent):
    """
    Clock of calls that would draw ``full``, more than the limit, in ``time`` at full clock.

    A step is :func:`time_at` and :func:`power_at` with their derivatives, written out because they share most terms.
    """
    saved, unslowed, root, unsaved = chip_energy * voltage_share, 1.0 - chip_share, 1.0 / exponent, 1.0 - voltage_share
    average = (memory_energy + chip_energy) / time
    rise = (saved + average * (launched + overlapped * chip_share)) / time + clock_on_power * (1.0 + voltage_share)
    low, high = math.log(_LOWEST), 0.0
    u = np.maximum(np.log(limit / full) * (full / rise), low)
    for _ in range(_STEPS):
        s = np.exp(u)
        scaled, clocked, chip = voltage_share * s, clock_on_power * s, chip_share * np.exp(-exponent * u)
        v, mixed = unsaved + scaled, unslowed + chip
        slowed, launching = overlapped * np.exp(root * np.log(mixed)), launched / s
        time = fixed + launching + slowed
        average = (memory_energy + chip_energy * v) / time
        now = static_power + average + clocked * v
        falling = launching + slowed * chip / mixed  # - dt / du
        rise = (saved * s + average * falling) / time + clocked * (v + scaled)  # dP / du
        above = now > limit
        low, high = np.where(above, low, u), np.where(above, u, high)
        step = u + np.log(limit / now) * (now / rise)
        before, u = u, np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if not np.any(np.abs(u - before) > _SETTLED):
            break
    return np.exp(u)

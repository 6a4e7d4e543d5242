"""Money and emissions of an amount of energy and of the time a device is held."""


def operational(energy, rate, pue):
    r"""
    Cost or emissions of electricity.

    Parameters
    ----------
    energy : numeric
        Energy at the boundary that is paid for. [J]
    rate : numeric
        Price or grid intensity of a joule. [EUR/J], [USD/J] or [gCO2e/J]
    pue : numeric
        Facility energy over equipment energy; 1 where none was given.

    Returns
    -------
    numeric
        Amount in the unit of ``rate`` times joule.

    Notes
    -----
    .. math:: O = E \cdot I \cdot \mathrm{PUE}

    References
    ----------
    .. [1] ISO/IEC 21031:2024, Software Carbon Intensity specification, clause 7 (:math:`E \cdot I`).
    .. [2] ISO/IEC 30134-2:2016, power usage effectiveness.

    Examples
    --------
    >>> float(operational(3.6e6, 300 / 3.6e6, 1.2))
    360.0
    """
    return energy * rate * pue


def embodied(amount, time, lifetime):
    r"""
    Part of a device's price or embodied emissions that a stretch of its time carries.

    Parameters
    ----------
    amount : numeric
        Price or embodied emissions of the device. [EUR], [USD] or [gCO2e]
    time : numeric
        Time for which the device is held, idle share included. [s]
    lifetime : numeric
        Time over which the amount is written off. [s]

    Returns
    -------
    numeric
        Amount.

    Notes
    -----
    .. math:: M = \mathrm{TE} \cdot \frac{\mathrm{TiR}}{\mathrm{EL}}

    with the whole device reserved for the time.

    References
    ----------
    .. [1] ISO/IEC 21031:2024, Software Carbon Intensity specification, clause 7 (time-share; resource share 1).

    Examples
    --------
    >>> float(embodied(150e3, 60.0, 4 * 31557600.0)) > 0
    True
    """
    return amount * time / lifetime

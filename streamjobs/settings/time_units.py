"""Units of epoch numbers: which one a number has, where [source] time_unit = "auto" leaves that to the first of them."""

from streamjobs.settings.types import TIME_UNITS

AUTO = "auto"
JUDGED = (1e8, 1e11)  # seconds since 1970, 1973-03-03 to 5138-11-16: of each unit, numbers that no other one has


def unit_of(number: object) -> str | None:
    """The unit in which a number is a time from 1973-03-03 to 5138-11-16; None for what is not a number, or none such.

    >>> unit_of(1_700_000_000), unit_of(1.7e12), unit_of(1_700_000_000_000_000), unit_of(17e17), unit_of(12.5)
    ('s', 'ms', 'us', 'ns', None)
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    first, end = JUDGED
    return next((unit for unit, scale in TIME_UNITS.items() if first * scale <= number < end * scale), None)

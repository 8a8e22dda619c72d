"""What an event time may be, wherever one is read: from a record or from a stored state."""

END_OF_TIME = 253_402_300_800.0  # the year 10000, seconds since 1970; an event time beyond it has the wrong unit
CLOSE = 1e-6  # seconds; times of rows nearer than this are the same

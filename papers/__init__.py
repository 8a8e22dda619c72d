"""Figures of the papers and of real recordings, printed by scripts: `python -m papers`."""

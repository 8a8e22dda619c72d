"""A fleet of sensors: temperature, humidity and a battery that falls, with faults planted in a few sensors."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

START, PAUSE = 1_700_000_000, 600  # seconds since 1970, and from row to row
FALL = 0.005  # of the battery, in its standard deviations a row
BEGIN = 0.6  # share of the rows before the faults
FAULTS = ("step", "noise", "apart", "stuck")


class Fleet(NamedTuple):
    """numbers: (sensors, rows, 3). faulty: sensor -> kind of fault, from row `begin` on."""

    numbers: np.ndarray
    faulty: dict[int, str]
    begin: int

    def write(self, path: Path, sensors: int | None = None) -> Path:
        """As JSON lines, in the order of time; sensors: only the first of them."""
        count, rows, _ = self.numbers.shape
        numbers = self.numbers.round(3).tolist()
        with path.open("w", encoding="utf-8") as file:
            for row in range(rows):
                for sensor in range(count if sensors is None else sensors):
                    t, h, b = numbers[sensor][row]
                    body = {"device": f"s{sensor:03}", "ts": START + PAUSE * row + sensor, "temperature": t, "humidity": h}
                    file.write(json.dumps({**body, "battery": b}) + "\n")
        return path


def fleet(seed: int, sensors: int, rows: int, faults: int, *, cycle: float = 0.0) -> Fleet:
    """cycle: amplitude of a day in the temperature, in its standard deviations."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(sensors, rows, 3))
    noise[..., 1] = -0.6 * noise[..., 0] + 0.8 * noise[..., 1]  # humid where it is cool
    day = np.sin(2 * np.pi * PAUSE * np.arange(rows) / 86_400)
    noise[..., 0] += cycle * day
    noise[..., 1] -= cycle * day
    begin = int(BEGIN * rows)
    faulty = dict(zip(random.choice(sensors, faults, replace=False).tolist(), FAULTS * faults, strict=False))
    for sensor, kind in faulty.items():
        after = noise[sensor, begin:]
        if kind == "step":
            after[:, 0] += 2.0
        elif kind == "noise":
            after[:, 1] *= 3.0
        elif kind == "apart":
            after[:, 1] = random.normal(size=len(after)) - cycle * day[begin:]
        else:
            after[:, 0] = after[0, 0]
    levels = random.normal(size=(sensors, 1, 3)) * [3.0, 8.0, 0.1] + [20.0, 50.0, 3.6]
    noise[..., 2] -= FALL * np.arange(rows)
    return Fleet(levels + noise * [0.5, 2.0, 0.02], faulty, begin)

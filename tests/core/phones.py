"""Records of several sensors, as the Sensor Logger app pushes them over HTTP and MQTT.

Message, names, times and values are those of its public documentation, "Data Pushing" with the section "Typescript Payload
Schema": https://github.com/tszheichoi/awesome-sensor-logger/blob/main/PUSHING.md. A list of readings comes once a batch
period; times are UTC in nanoseconds since 1970. That the readings of a sensor stand together in it is ours: it is the harder
order.
"""

import json
from typing import Any

import numpy as np

from streamjobs.core.messages import Stored

TOPIC, START = "phones", 1_700_000_000  # seconds
AXES = ["values.x", "values.y", "values.z"]
SENSORS: dict[str, Any] = {
    "name": "name",
    "samples": "payload",
    "other": "skip",
    "each": {
        "accelerometer": {"fields": AXES, "rate": 100},
        "gyroscope": {"fields": AXES, "rate": 25},
        "barometer": {"fields": ["values.pressure"], "rate": 1, "between": "hold"},
    },
}
SOURCE = {"topic": TOPIC, "time": "time", "time_unit": "ns", "sensors": SENSORS}
JOB: dict[str, Any] = {
    "source": SOURCE,
    "window": {"length": "1s", "hop": "500ms", "rate": 100},
    "learner": {"name": "okfeb", "rank": 3, "budget": 5},
}


def signal(name: str, seconds: float, key: int = 0) -> dict[str, float]:
    """What a sensor measures at a time."""
    t = seconds + key
    if name == "barometer":
        return {"relativeAltitude": 0.0, "pressure": 1013.0 + np.sin(t / 5)}
    slow = {"accelerometer": 5.0, "gyroscope": 3.0}[name]
    return {axis: float(np.sin(slow * t + place)) for place, axis in enumerate("xyz")}


def reading(name: str, nanoseconds: int, key: int = 0) -> dict[str, Any]:
    return {"name": name, "time": START * 10**9 + nanoseconds, "values": signal(name, nanoseconds / 1e9, key)}


def readings(begin: float, end: float, key: int = 0) -> list[dict[str, Any]]:
    """All sensors' readings of some seconds, sensor by sensor."""
    found = []
    for name, sensor in SENSORS["each"].items():
        rate = sensor["rate"]
        numbers = range(round(begin * rate), round(end * rate))
        found += [reading(name, n * 10**9 // rate, key) for n in numbers]
    return found


def push(number: int, payload: list[dict[str, Any]], key: bytes = b"a1b2", offset: int | None = None) -> Stored:
    """A message as a record."""
    battery = {"batteryLevel": 0.9, "batteryState": "unplugged", "lowPowerMode": False}
    last = payload[-1]["time"] if payload else START * 10**9
    payload = [*payload, {"name": "battery", "time": last, "values": battery}]
    body = {"messageId": number, "sessionId": "5f0c", "deviceId": key.decode(), "payload": payload}
    stamp = (START + 1 + number) * 1000
    return Stored(TOPIC, 0, number if offset is None else offset, stamp, key, json.dumps(body).encode())


def pushes(seconds: int, keys: int = 1) -> list[Stored]:
    """A message a second of every key."""
    return [
        push(second, readings(second, second + 1, key), b"phone-%d" % key, second * keys + key)
        for second in range(seconds)
        for key in range(keys)
    ]

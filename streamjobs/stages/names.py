"""Names of a job's stages, which its stored states know them by: they must never change."""

ORDER = "order"  # every job has this one, LEARNER and CLASS_COUNTS
LEARNER = "learner"
SCALING = "scaling"  # in front of the learner, or of the map
MAP = "map"  # that all keys of a job with a population share
CLASS_COUNTS = "books"  # rows, and labels of each class
IDLE = "idle"
WINDOWS = "windows"
WAITING = "waiting"
SMOOTHING = "smoothing"
FALLBACK = "fallback"
COUNTERS = "counters"  # before all others
FILL, CLIP, ALARMS = "fill", "clip", "alarms"  # states are read whether or not they have them
SENSORS = "sensors"
# Behind all others, and read like FILL.
BOUTS, STUCK, SILENT, GROUP = "bouts", "stuck", "silent", "group"
FORECASTS, PAUSES, REFUTED, ELAPSED = "forecasts", "pauses", "refuted", "elapsed"
REFERENCE, REFERENCE_SCALING = "reference", "drift_scaling"  # with [drift] reference
SLOPES, RHYTHM = "drift_slopes", "drift_rhythm"  # with [drift] slopes, daily
DRIFT_REFERENCE = "drift_reference"  # no stage: which reference of a population a detector's state stands on
# Fields of `Steps` that have other names.
STORED = {"class_counts": CLASS_COUNTS, "reference_scaling": REFERENCE_SCALING, "slopes": SLOPES, "rhythm": RHYTHM}

"""Names of a job's stages, which its stored states know them by: they must never change."""

ORDER = "order"  # these two every job has
LEARNER = "learner"
SCALING = "scaling"  # in front of the learner, or of the map
MAP = "map"  # that all keys of a job with a population share
CLASS_COUNTS = "books"  # rows, and labels of each class
IDLE = "idle"
FILL, CLIP, ALARMS = "fill", "clip", "alarms"  # states are read whether or not they have them
SENSORS = "sensors"
REFERENCE, REFERENCE_SCALING = "reference", "drift_scaling"  # with [drift] reference
DRIFT_REFERENCE = "drift_reference"  # no stage: which reference of a population a detector's state stands on

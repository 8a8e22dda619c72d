"""The parts of a job file with a population that `init` writes.

What they set was measured in `python -m papers activity_choice`, and on the same sets with 200 directions.
"""

from streamjobs.recordings import survey
from streamjobs.recordings.guess.result import Guess, windowed
from streamjobs.stages.statistics import CONVOLVED

LENGTH = 2.0  # seconds of a window
OF_POPULATION = """\
[population]  # learned from {count} people: 'streamjobs fit' writes the file, and new people start with it
file = "population.state"{directions}

[scaling]
clip = 5.0  # in standard deviations of the population

{map}name = "rls"  # a linear head: the population's at first, adapted to a key by its labels where that helps
unlabelled = 0.0  # labels do not lower the scores of activities that a key has not labelled yet
filter = "hmm"  # scores are probabilities, given the windows before: an activity usually continues{lasts}
{room}max_classes = {classes}  # allows labels of activities that the population does not have; absent: dead letters
# reject = 0.05  # rows unlike all known activities are unknown, and at most this share of the known ones; absent: none"""
LASTS = '\n# lasts = "60s"  # an activity, on average; absent: as in the recordings'  # of windows: samples have no hop
LINEAR = "[learner]  # 'streamjobs fit --choose' compares this with other statistics, maps and filters on your recordings\n"
PROTOTYPES = """\
[learner]  # 'streamjobs fit --choose' compares this with other maps and filters on your recordings
name = "random_prototypes"  # similarities to rows of the population
budget = 300
input = true  # the head also sees the numbers of the row

[head]
"""

DRIFT_OF_POPULATION = """

# [drift]  # alarms when people change what they do; 'streamjobs fit' learns the limit from the same recordings
# watch = "columns"
# false_alarms = "20/h"
# reference = "population"  # a window is normal if it is like the windows before it"""

OF_STARTER = """\
[population]  # of the package: {made_from}
file = {file}  # 'streamjobs fit' makes a population from your own recordings

[scaling]
clip = 5.0  # in standard deviations of the population

[learner]
name = "rls"  # a linear head: the population's at first, adapted to a key by its labels where that helps
filter = "hmm"  # scores are probabilities, given the windows before: an activity usually continues
# lasts = "10m"  # an activity, on average; absent: as in the population's recordings
# max_classes = {classes}  # allows labels of activities that the population does not have; absent: dead letters"""

ROOM = 4  # classes of a person, in addition to the population's
DIRECTIONS = "\ndirections = {}  # combinations of a row's numbers that a head learns on: smaller states"
FEWEST = "\nfewest = 0.4  # least share of a window's samples; other rates are interpolated"
CONVOLUTIONS = "\nconvolutions = 200  # more numbers for each window, which 'fit' learns; 0: none"


def of_population(guessed: Guess) -> str:
    """[population], [scaling], and [learner] with [head]."""
    few = 200 if convolutions(guessed) else 128 if not windowed(guessed.rate) else 0
    return OF_POPULATION.format(
        count=guessed.people,
        directions=DIRECTIONS.format(few) if few else "",
        map=LINEAR if windowed(guessed.rate) else PROTOTYPES,
        lasts=LASTS if windowed(guessed.rate) else "",
        room="" if guessed.classes > survey.MOST_UNSTATED else "# ",
        classes=guessed.classes + ROOM,
    )


def convolutions(guessed: Guess) -> str:
    """The line of [window] for windows that convolutions can be made of."""
    least, most = CONVOLVED
    return CONVOLUTIONS if least <= LENGTH * (guessed.rate or 0.0) <= most else ""

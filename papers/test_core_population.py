"""The core's numbers are the figures', on raw recordings with labels in records of their own."""

from papers.core_population import compared


def test_a_persons_recordings_through_the_core_give_the_bits_of_the_figures():
    lines = compared("watch", people=1)
    print("\n" + "\n".join(lines))
    assert len(lines) == 2 and "561 windows, 541 late labels" in lines[1]

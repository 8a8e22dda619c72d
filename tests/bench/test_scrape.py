"""The benchmark of a scrape, short: its keys are live, and the size of the page does not follow their number."""

from tests.bench.scrape import measure


def test_a_scrape_is_no_larger_with_many_keys() -> None:
    few, many = measure(40), measure(1200)
    assert (few["keys"], many["keys"]) == (40, 1200)
    assert many["bytes"] < 1.02 * few["bytes"] < 60_000  # only numbers get longer

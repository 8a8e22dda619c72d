"""Learns a population (scale, map, starting head) from recordings of many people, and evaluates it for new people."""

"""A population learned from recordings of many people: scale, map and head, and what they are worth for somebody new."""

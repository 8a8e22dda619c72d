"""Prototypes: samples of the stream that span an explicit feature map, chosen in different ways."""

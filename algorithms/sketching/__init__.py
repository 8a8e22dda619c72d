"""Explicit feature maps from sketches of the kernel matrix, and linear steps on them."""

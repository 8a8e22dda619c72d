"""Fixed feature maps: explicit coordinates with a dot product that approximates a kernel, chosen without looking at data."""

"""Fixed feature maps: explicit coordinates whose dot product approximates a kernel, chosen without looking at data."""

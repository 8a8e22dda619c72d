"""Many records of one sample each to arrays: one compiled pass over the bytes, without an object for each number."""

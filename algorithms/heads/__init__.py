"""Linear heads: small models on features, each for several targets at once."""

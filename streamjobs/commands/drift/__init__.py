"""Commands about drift detection."""

"""Commands that read recordings: the options they share, and `produce`."""

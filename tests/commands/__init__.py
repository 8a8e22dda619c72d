"""The commands, as users type them."""

"""Commands for who tries things out: pictures of outputs, checks of a learner of their own."""

"""`state show --prototypes`: the samples that a key's learner keeps, printed and drawn."""

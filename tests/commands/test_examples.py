"""Each command's help ends with an example, and the command takes it."""

import shlex

import pytest

from tests.docs.reference import leaf_commands

COMMANDS = {" ".join(words): command for words, command in leaf_commands()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_an_example_that_it_takes(name):
    command = COMMANDS[name]
    assert command.epilog is not None and command.epilog.startswith(f"Example: streamjobs {name}")
    words = shlex.split(command.epilog.removeprefix(f"Example: streamjobs {name}"))
    command.make_context(name, words)  # raises for an option or an argument that it does not have

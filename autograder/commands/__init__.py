"""The subcommands of ``autograder``: one module each, with ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""

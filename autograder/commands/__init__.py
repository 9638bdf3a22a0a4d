"""The subcommands of ``autograder``.

One module each, with ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit code.
"""

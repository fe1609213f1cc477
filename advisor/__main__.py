"""Runs the command line: `python -m advisor` does the same as `advisor`."""

from advisor.cli.main import main

main()

"""`python -m advisor` is `advisor`."""

from advisor.cli.main import main

main()

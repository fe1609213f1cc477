"""The Python API: functions take a question's fields as arguments and return an answer object.

The package `advisor` exports them. `python -m advisor.infra.build.documents` writes their declarations for
type checkers and notebooks, `advisor/__init__.pyi`."""

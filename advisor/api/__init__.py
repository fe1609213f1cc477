"""The Python API: a question's fields as arguments, an answer as an object.

`import advisor` shows what is here; `advisor/__init__.pyi` declares it for type checkers and notebooks, and
is written by `python -m advisor.infra.build.documents`."""

"""Questions -> `advisor.report/1`: the answers, with the details that whoever pays will want to know.

Reports are built here from the catalogue and the model. The formats (`advisor.render.formats`) take only the
document, so that no number of a report can differ from its JSON."""

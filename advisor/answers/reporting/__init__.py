"""Questions -> `advisor.report/1`: the answers with all that the one who pays will ask about them.

What is gathered here needs the catalogue and the model; the formats (`advisor.render.formats`) take the
document alone, so that no number of a report can differ from its JSON."""

"""`advisor.report/1` as files: pure, each from the document alone."""

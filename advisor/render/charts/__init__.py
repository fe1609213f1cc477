"""The pictures of a sizing report: values of the document in, SVG and words for it out."""

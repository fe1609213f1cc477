"""Views of each task's answers: text, documents, and the blocks of reports and pages."""

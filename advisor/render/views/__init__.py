"""What each task's answers look like: as text, as documents, and as the blocks of reports and pages."""

"""The page: HTML from the server for each question, and a little script that makes it live."""

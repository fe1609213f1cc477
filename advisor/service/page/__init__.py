"""The web pages: HTML that the server renders for each question, and a small script that updates it."""

"""Users' measurements of their own code, and the program that takes them."""

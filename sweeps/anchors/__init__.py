"""What users measured of their own code, and the program that measures it."""

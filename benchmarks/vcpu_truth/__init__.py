"""Does the host stage carry a rate over cores, second threads and CPUs as servers measured it?"""

"""One file a version of the tables. History, so that old databases stay readable:

0001  measurements (databases of before versions were kept are this one)
0002  leases; names of any length
0003  since when a lease is held, and what its trial is called
0004  schedules, their runs and their leader; measurements that newer ones replaced
0005  keys of the HTTP service, and the page's sessions
0006  what a schedule reports after each run
"""

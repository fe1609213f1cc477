"""Commands that run by themselves: when they are due, who runs them, what became of them.

`cron` has the due times, `deciding` what becomes of them, `leading` is the daemon, `executing`
the process of one run, `refitting` and `drifting` what follows a sweep.
"""

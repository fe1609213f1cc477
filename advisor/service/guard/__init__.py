"""What stands around every request: who asks, from where, how much and how often.

Pure ASGI, so that it costs a request some ten microseconds; outermost, so that errors pass through
it too. `gate` puts the parts together.
"""

"""Sweeps that somebody starts and does not wait for: each a process of its own, found again from
what lies in its folder by whoever looks (docs/service.md)."""

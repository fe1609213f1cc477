"""From launch options to one running instance that is paid for, and back to none."""

"""Routes, one file a noun: read what is asked, call one function, hand back its document."""

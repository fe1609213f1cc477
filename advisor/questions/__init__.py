"""Questions: typed, validated records, for the command line, HTTP and Python alike."""

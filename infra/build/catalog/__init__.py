"""From committed source files to the bundled catalogue snapshot, one file a part."""

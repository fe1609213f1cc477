"""The input pipeline that is measured: JPEG files to normalised batches, as users run it."""

"""The records of the data sets, grouped by origin: each an `Entry`, with the function that reads its files."""

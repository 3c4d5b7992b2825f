"""The records of the data sets, one module per origin: each an `Entry`, with the function that reads its files."""

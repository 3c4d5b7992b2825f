"""One module per data set: its record `ENTRY` and the function that reads its files."""

"""One module per command: a pure function that returns data, and a thin printer."""

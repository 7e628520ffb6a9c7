"""Command line of Penstock.  Pure functions return data; thin printers show it."""

__version__ = "0.1.0"

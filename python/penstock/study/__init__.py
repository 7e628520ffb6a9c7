"""Studies: the figures of the papers, measured again on this machine.  Each module knows reports and benchmarks, not the engine."""

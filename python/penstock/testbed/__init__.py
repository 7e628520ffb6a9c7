"""Several nodes on one machine: namespaces joined by a bridge with shaped links.  Knows nothing of MPI-IO or of the command line."""

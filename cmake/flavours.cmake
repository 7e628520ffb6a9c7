# One library per MPI ABI.

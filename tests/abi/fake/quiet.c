// A library without any function of MPI: stands for a flavour of the wrong build.
int quiet_library = 1;

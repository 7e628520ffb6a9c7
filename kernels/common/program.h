/* What every kernel and benchmark program needs: failing clearly, numbers from the command line, plain reads and writes, clocks that all
 * ranks share, sums over ranks, JSON.  Plain MPI and POSIX; knows nothing of patterns. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <mpi.h>
#include <stdint.h>

extern int this_rank;
extern int all_ranks;

/* Starts MPI with errors that return, and remembers the program's name for messages. */
void start_mpi(int *argc, char ***argv, const char *name);
void end_mpi(void);
/* For what every rank finds wrong alike, such as its arguments: rank 0 says it, all end in order with exit code 2.  Collective. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void usage_error(const char *usage);
/* For what one rank may meet alone: ends them all with exit code 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check(int code, const char *operation, const char *subject);
/* Every MPI call goes through CHECK; a failure is told once, clearly, and ends the program. */
#define CHECK(call, subject) check((call), #call, (subject))
void *allocate(int64_t count, int64_t size_bytes);
int64_t multiply(int64_t one, int64_t other, const char *what);
/* Refuses what is no whole number in the range.  Collective. */
int64_t whole_number(const char *option, const char *text, int64_t least, int64_t most);

/* Plain files. */
int open_posix(const char *path, int flags);
void pwrite_whole(int file, const unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path);
/* Returns the bytes read: fewer than asked for only at the end of the file. */
int64_t pread_whole(int file, unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path);
/* Collective.  Not timed: a file of a repetition begins as nothing and ends as nothing. */
void remove_file(const char *path);

/* Clocks.  Collective. */
void barrier(void);
/* The ranks of a node leave at the same moment, awake: each sleeps until a time that the first of them sets.  After a barrier alone, ranks
 * that share a core leave one after the other, up to a time slice apart, since MPI libraries wait by spinning; that would count as the first
 * call's time.  Returns the seconds of a clock that is one and the same on all ranks of a node. */
double start_together(void);
double clock_seconds(void);
/* From the first of this node's ranks that began to the end of this one, both by clock_seconds(): a rank that had to wait for a core before it
 * could begin is not faster for it, and those that wait for it are not slower. */
double seconds_since_first(double start, double end);
/* After the timed part: a rank that is through sleeps before it spins in a barrier, or it keeps ranks that share its core from being through. */
void finish_together(void);

/* One figure for each repetition. */
enum { REPETITIONS_MAX = 1000 };
struct series {
  const char *name;
  int count;
  double values[REPETITIONS_MAX];
};
void series_append(struct series *series, double value);
/* Appends the seconds of the slowest rank.  Collective. */
void series_add(struct series *series, double seconds);
void series_print(const struct series *series);

/* What a timed part costs this process besides time. */
struct cost {
  double user_seconds;
  double system_seconds;
  int64_t switches;
  int64_t page_faults;
};
struct cost cost_now(void);
void cost_add(struct cost *total, const struct cost *since);
/* Sums over all ranks.  Collective. */
struct cost cost_of_all(const struct cost *own);
void cost_print(const struct cost *cost);
/* System calls that read or write, of all threads of this process so far, or 0 where the kernel does not count them.  Asking takes a
 * while and counts as one itself. */
int64_t file_calls_now(void);

/* Memory of this process that is no file's, as it is now, with its share of what it has in common with others, or 0 where the kernel does
 * not tell. */
int64_t memory_now(void);

int64_t sum_of_all(int64_t own);
int64_t max_of_all(int64_t own);
uint64_t hash_of_all(uint64_t own);

/* JSON: a string with its quotes; the first line of the MPI library's own name under "mpi". */
void print_string(const char *text);
void print_mpi_version(void);

#endif

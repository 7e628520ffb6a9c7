/* What every kernel does with its pattern: write a fresh file, check it with plain reads, read it back in the same and in another
 * decomposition, check every byte, tell the seconds.  A kernel says which views and which bytes; this says how, when and how long. */
#ifndef PASSES_H
#define PASSES_H

#include "opened.h"

#include <getopt.h>

/* One MPI-IO call of one rank.  Types are owned by the kernel. */
struct step {
  int begins_view;         /* a view is set before the call; else the call goes on where the last one ended */
  int names_offset;        /* no view: the call itself says where, in bytes from the beginning; in all steps or in none */
  MPI_Offset displacement; /* of that view, or that offset */
  MPI_Datatype etype;
  MPI_Datatype filetype;
  MPI_Datatype memory; /* how the bytes lie in the buffer */
  int count;           /* of memory */
  int64_t bytes;
  int64_t buffer_bytes; /* more than bytes where memory has gaps */
  int64_t pieces;       /* contiguous pieces of the file */
};

/* What one rank moves in a pass over the file: its own part, or the part that the next rank wrote. */
struct steps {
  int count;
  struct step *step;
};

/* Called with each contiguous run of file bytes of a step and where they lie in the step's buffer, in the order of the view. */
typedef void run_visitor(void *user, int64_t file_offset, int64_t size_bytes, int64_t buffer_offset);

struct kernel {
  const char *name;
  int64_t file_bytes; /* of all files together */
  /* Not 0: every rank has a file of its own of so many bytes, named PATH.RANK.  Their content is that of one file in which they lie one
   * after another, and so are the offsets that `runs` tells. */
  int64_t own_file_bytes;
  struct steps own;
  struct steps neighbour; /* what the next rank wrote (the last one's next is rank 0) */
  void *context;
  /* The bytes of a step, packed as its memory type says.  `neighbour`: of which of the two lists of steps. */
  void (*fill)(const struct kernel *kernel, int neighbour, int step, uint64_t seed, unsigned char *buffer);
  /* Bytes of a step that are wrong; adds what is there to `hash`. */
  int64_t (*wrong)(const struct kernel *kernel, int neighbour, int step, uint64_t seed, const unsigned char *buffer, uint64_t *hash);
  /* Kernels whose content is a function of the file offset give `runs` and leave fill and wrong to kernel_of_runs. */
  void (*runs)(const struct kernel *kernel, int neighbour, int step, run_visitor *visit, void *user);
  /* Optional.  Rank 0 writes these before anything else. */
  const void *header;
  int64_t header_bytes;
  /* Prints the kernel's own fields of the JSON line, each after a comma. */
  void (*facts)(const struct kernel *kernel);
};

/* Options that all kernels have. */
struct pass_options {
  const char *file;
  struct access access;
  int repetitions;
  uint64_t seed;
  int verify;
  int plain; /* check the written file with plain reads */
  int writing;
  int reading;
  int shifted; /* also read what the next rank wrote */
  int reorder; /* read that only */
  int sync;
  int keep;
  int json;
};

#define PASS_USAGE                                                                                                       \
  "  --file PATH       the file to write\n"                                                                              \
  "  --collective      MPI_File_write_all and read_all (the default); --independent: MPI_File_write and read\n"          \
  "  --posix           a pwrite or pread for each contiguous piece, no MPI-IO\n"                                         \
  "  --repetitions N   fresh files to write and read (1)\n"                                                              \
  "  --seed N          number of the content that the last file has (0)\n"                                               \
  "  --hint KEY=VALUE  an info hint for MPI_File_open; may be repeated\n"                                                \
  "  --no-verify       check no bytes; --no-plain: none with plain reads, for names that only the MPI library knows\n"   \
  "  --no-shifted      do not read again what the next rank wrote; --reorder: read that instead of one's own\n"          \
  "  --write-only, --read-only   half of it; a file that is only read is there already, and stays\n"                     \
  "  --sync, --no-sync MPI_File_sync before the written file is closed\n"                                                \
  "  --keep            leave the file\n"                                                                                 \
  "  --json            one line of JSON (the default); --table: for people\n"

/* Codes of getopt_long's table, beyond every letter. */
enum pass_option {
  PASS_FILE = 256, PASS_COLLECTIVE, PASS_INDEPENDENT, PASS_POSIX, PASS_REPETITIONS, PASS_SEED, PASS_HINT, PASS_NO_VERIFY, PASS_NO_PLAIN,
  PASS_NO_SHIFTED, PASS_REORDER, PASS_WRITE_ONLY, PASS_READ_ONLY, PASS_SYNC, PASS_NO_SYNC, PASS_KEEP, PASS_JSON, PASS_TABLE
};

#define PASS_OPTIONS                                                                                                    \
  {"file", required_argument, NULL, PASS_FILE}, {"collective", no_argument, NULL, PASS_COLLECTIVE},                     \
      {"independent", no_argument, NULL, PASS_INDEPENDENT}, {"posix", no_argument, NULL, PASS_POSIX},                   \
      {"repetitions", required_argument, NULL, PASS_REPETITIONS},                                                       \
      {"seed", required_argument, NULL, PASS_SEED}, {"hint", required_argument, NULL, PASS_HINT},                       \
      {"no-verify", no_argument, NULL, PASS_NO_VERIFY}, {"no-plain", no_argument, NULL, PASS_NO_PLAIN},                 \
      {"no-shifted", no_argument, NULL, PASS_NO_SHIFTED},                                                               \
      {"reorder", no_argument, NULL, PASS_REORDER}, {"write-only", no_argument, NULL, PASS_WRITE_ONLY},                 \
      {"read-only", no_argument, NULL, PASS_READ_ONLY}, {"sync", no_argument, NULL, PASS_SYNC},                         \
      {"no-sync", no_argument, NULL, PASS_NO_SYNC}, {"keep", no_argument, NULL, PASS_KEEP},                             \
      {"json", no_argument, NULL, PASS_JSON}, {"table", no_argument, NULL, PASS_TABLE}

struct pass_options pass_options_default(void);
/* Returns 0 when the code is none of the common options. */
int pass_option_taken(struct pass_options *options, int code, const char *value);

void pass_options_release(struct pass_options *options);

/* Sets fill and wrong for content that is a function of the file offset, and counts the pieces of every step. */
void kernel_of_runs(struct kernel *kernel);
/* Writes, reads, checks, prints.  Collective.  Returns the program's exit code: 1 when bytes were wrong. */
int kernel_run(const struct kernel *kernel, const struct pass_options *options);
void steps_allocate(struct steps *steps, int count);

#endif

// Makes the calls that its arguments name, in order, and prints one line for each answer; then what the front says of
// itself.
//   call SYMBOL A B    all-names FILE    words    threads    module FILE A B    load FILE    chdir PATH    errno
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef intptr_t (*Function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
typedef intptr_t (*ModuleFunction)(intptr_t, intptr_t);
enum { kThreads = 8 };

static pthread_barrier_t barrier;

static Function function(const char* name) {
  Function found = (Function)dlsym(RTLD_DEFAULT, name);
  if (found == NULL) exit(3);
  return found;
}

static void* call_at_once(void* unused) {
  Function get_amode = function("MPI_File_get_amode");
  pthread_barrier_wait(&barrier);
  return (void*)get_amode(0, 0, 0, 0, 0, 0);
}

/// Prints how many of the threads that made the process's first call together got the right answer.
static void threads(void) {
  pthread_t ids[kThreads];
  int right = 0;
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (int i = 0; i < kThreads; ++i) pthread_create(&ids[i], NULL, call_at_once, NULL);
  for (int i = 0; i < kThreads; ++i) {
    void* answer;
    pthread_join(ids[i], &answer);
    right += strcmp(answer, "MPI_File_get_amode") == 0;
  }
  printf("%d of %d\n", right, kThreads);
}

static void all_names(const char* path) {
  char name[64];
  int right = 0;
  FILE* names = fopen(path, "r");
  while (fscanf(names, "%63s", name) == 1) right += strcmp((const char*)function(name)(0, 0, 0, 0, 0, 0), name) == 0;
  fclose(names);
  printf("%d\n", right);
}

static void module(const char* path, intptr_t a, intptr_t b) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) exit(4);
  printf("%" PRIdPTR "\n", ((ModuleFunction)dlsym(handle, "module_call"))(a, b));
}

static void errno_kept(void) {
  errno = EDOM;
  function("MPI_File_get_amode")(0, 0, 0, 0, 0, 0);
  printf("%s\n", errno == EDOM && dlerror() == NULL ? "kept" : "lost");
}

int main(int argc, char** argv) {
  const intptr_t big = (intptr_t)0x100000001;
  for (char** at = argv + 1; *at != NULL; ++at) {
    if (strcmp(*at, "call") == 0) {
      printf("%" PRIdPTR "\n", function(at[1])(atol(at[2]), atol(at[3]), 0, 0, 0, 0));
      at += 3;
    } else if (strcmp(*at, "all-names") == 0) {
      all_names(*++at);
    } else if (strcmp(*at, "words") == 0) {
      printf("%" PRIdPTR "\n", function("PMPI_File_set_view")(big, big, big, big, big, big));
    } else if (strcmp(*at, "threads") == 0) {
      threads();
    } else if (strcmp(*at, "module") == 0) {
      module(at[1], atol(at[2]), atol(at[3]));
      at += 3;
    } else if (strcmp(*at, "load") == 0) {
      if (dlopen(*++at, RTLD_NOW | RTLD_LOCAL) == NULL) exit(4);
    } else if (strcmp(*at, "chdir") == 0) {
      if (chdir(*++at) != 0) exit(5);
    } else if (strcmp(*at, "errno") == 0) {
      errno_kept();
    } else {
      exit(2);
    }
  }
  printf("%s\n", (const char*)dlsym(RTLD_DEFAULT, "penstock_front_state"));
  return 0;
}

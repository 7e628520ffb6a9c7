/* Lets ranks sleep while they wait, for runs with more ranks than cores.  MPICH on UCX polls without ever giving its core away; Open MPI yields
 * it, which a scheduler that groups processes by session takes no notice of.  Either way a rank that has nothing to do keeps those from
 * running that it waits for.  Preloaded natively and under the preload to be tested, so that both run alike.  Knows nothing of MPI:
 * it stands before UCX's progress function and before sched_yield, and touches no data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

enum { kPollsBeforeSleep = 32, kYieldsBeforeSleep = 8, kSleepNanoseconds = 20000 };

static void sleep_after(unsigned calls, unsigned* so_far) {
  const struct timespec moment = {0, kSleepNanoseconds};
  if (++*so_far < calls) return;
  *so_far = 0;
  nanosleep(&moment, 0);
}

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*progress)(void*);
  static _Thread_local unsigned polls;
  if (!progress) progress = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  if (!progress) {  /* Python loads MPI for itself alone: what is behind it is in no search order */
    void* library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    progress = (unsigned (*)(void*))dlsym(library ? library : RTLD_DEFAULT, "ucp_worker_progress");
  }
  const unsigned done = progress(worker);
  if (done)
    polls = 0;
  else
    sleep_after(kPollsBeforeSleep, &polls);
  return done;
}

int sched_yield(void) {
  static _Thread_local unsigned yields;
  sleep_after(kYieldsBeforeSleep, &yields);
  return 0;
}

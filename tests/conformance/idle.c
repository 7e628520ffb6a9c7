/* Lets ranks of MPICH sleep while they wait, for runs with more ranks than cores: MPICH on UCX polls without ever giving its core away, so that
 * a rank that has nothing to do keeps those from running that it waits for.  Preloaded natively and under the preload to be tested, so
 * that both run alike.  Knows nothing of MPI: it stands before UCX's progress function, and touches no data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

enum { kPollsBeforeSleep = 32, kSleepNanoseconds = 20000 };

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*progress)(void*);
  static _Thread_local unsigned polls;
  if (!progress) progress = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned done = progress(worker);
  if (done) {
    polls = 0;
  } else if (++polls >= kPollsBeforeSleep) {
    const struct timespec moment = {0, kSleepNanoseconds};
    polls = 0;
    nanosleep(&moment, 0);
  }
  return done;
}

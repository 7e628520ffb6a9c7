// A thread that carries out accesses while the program computes.
#include "file/worker.h"

#include <csignal>
#include <exception>

#include "comm/errands.h"

namespace penstock::file {

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Worker::post(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    // The program's signals are the program's: the thread takes none, but for what its own accesses may come by (store/posix/bus_errors.h).
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {  // no thread, or no memory for it
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  jobs_.push_back(std::move(job));
  lock.unlock();
  changed_.notify_one();
  return true;
}

void Worker::run() {
  const comm::ThreadOfOurs mark;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds is released outside the lock
    lock.lock();
  }
}

Worker& Worker::independent() {
  // Never destroyed: a program may exit with requests in flight, and joining a thread from a static destructor would hang it.
  static Worker* const worker = new Worker;
  return *worker;
}

}  // namespace penstock::file

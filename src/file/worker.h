// A thread that carries out accesses while the program computes.  Knows nothing of files.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::file {

/// Runs jobs one after another, in the order in which they came, on a thread of its own that starts with the first job.
/// Thread rule: post() from any thread.  The destructor waits for the jobs that were posted.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  /// False when no thread can be had: the caller then runs the job itself.  Throws, having done nothing, where there is no memory to keep the job.
  [[nodiscard]] bool post(std::function<void()> job);

  /// The process's worker for accesses that wait for nobody.
  static Worker& independent();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace penstock::file

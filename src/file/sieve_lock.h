// Sieve lock: who may rewrite bytes that are not its own.  Knows stores; nothing of MPI, datatypes or ranks.
//
// A sieved write reads a window, changes its own pieces in it and writes the window back.  If somebody else writes into
// the window meanwhile, the sieve puts his old bytes back.  So either nobody sieves, or everybody who writes takes
// byte-range locks.  Most files are never sieved; their writers pay two lock calls per open file and nothing per write.
//
// Two bytes at the very end of the offset range, where no file reaches, say who is there.  Both are only ever locked
// shared, so nobody waits for them; what counts is whether somebody else holds one.
//   plain byte:    held, from before its first write until its close, by every file that writes without range locks
//   sieving byte:  held, from before its first sieved write until its close, by every file that may sieve
//   becoming plain:    lock the plain byte, then look: if another holds the sieving byte, give the plain byte back and
//                      lock the range of every write instead (kLockRanges)
//   becoming a siever: lock the sieving byte, then look: if another holds the plain byte, give the sieving byte back
//
// No plain writer P and siever S are ever there together.  Suppose P is plain and S may sieve, both at some moment.  P
// locked its byte at p1 and looked at p2 > p1; S locked at s1 and looked at s2 > s1; both have held their locks since.
// P saw the sieving byte free at p2, so S locked it later: p2 < s1.  S saw the plain byte free at s2, so s2 < p1.
// Then p1 < p2 < s1 < s2 < p1, which cannot be.  (Locking and looking are atomic: the kernel or the store orders them.)
//
// A file in kLockRanges may be there with either: it excludes sievers by its range locks, and disturbs nobody since it
// does not sieve.  It needs neither byte.
//
// Neither side waits for the other's close.  A thread holds one range with data at a time: there is no deadlock.
#pragma once

#include <atomic>
#include <mutex>

#include "base/status.h"
#include "store/store.h"

namespace penstock::file {

enum class WriteRight {
  kPlain,       ///< write at will; never sieve
  kLockRanges,  ///< every write inside a WriteGuard; never sieve
  kMaySieve,    ///< every write inside a WriteGuard, except sieved ones, which lock their windows themselves
};

/// Bytes from this offset on serve as signs; no range with data in it may reach it.
constexpr Offset kLockSigns = INT64_MAX - 2;

/// The right of one open file, found out at its first write and then kept until its close: a right that changed later
/// would have to wait for every write that goes on under the old one.  Thread rule: all calls may be made concurrently.
class SieveLock {
 public:
  /// The right to write to `file`; always the same file.  To be called before every write; all but the first successful
  /// call are cheap and ignore `want_sieving`.
  /// Local.  Does not block on other writers.  Fails with what the store's locks fail with; then no right is held, and
  /// the next call tries again.
  Result<WriteRight> acquire(store::File& file, bool want_sieving);

 private:
  static Result<WriteRight> find_out(store::File& file, bool want_sieving);

  std::atomic<bool> known_ = false;
  WriteRight right_ = WriteRight::kPlain;  ///< once known
  std::mutex mutex_;
};

/// Keeps sievers out of a range for the length of a write that is not sieved.  Writers share the range: two of them
/// never wait for each other.
class WriteGuard {
 public:
  /// Blocks while a siever rewrites an overlapping window.  Nothing is locked for kPlain or an empty range.
  /// Requires: the thread holds no other guard on the file.
  static Result<WriteGuard> lock(store::File& file, WriteRight right, Offset first, Offset end);
  WriteGuard(WriteGuard&& other) noexcept : file_(other.file_), first_(other.first_), length_(other.length_) {
    other.file_ = nullptr;
  }
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;
  WriteGuard& operator=(WriteGuard&&) = delete;
  ~WriteGuard();

 private:
  WriteGuard(store::File* file, Offset first, Offset length) : file_(file), first_(first), length_(length) {}
  store::File* file_;
  Offset first_;
  Offset length_;
};

}  // namespace penstock::file

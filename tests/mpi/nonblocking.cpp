// Nonblocking calls complete through every Wait and Test form, alone and mixed with messages (MPI 4.1 sections 3.7, 14.4).
// ranks: 1 3 4
// run: --single
// run: --multiple
// time limit: 120
#include "calls.h"

#include <functional>

using check::open_on_world;
using check::scratch;

namespace {

constexpr int count = 32;   // requests outstanding at once
constexpr int ints = 100;   // ints that each moves

/// `count` blocks of this rank, interleaved with those of the others.
struct Blocks {
  std::vector<std::vector<int>> memory;
  std::vector<MPI_Request> requests = std::vector<MPI_Request>(count, MPI_REQUEST_NULL);
  std::vector<int> times_done = std::vector<int>(count, 0);

  static MPI_Offset place(int i) { return MPI_Offset(4) * ints * (i * check::size + check::rank); }
  static int value(int i, int k) { return (check::rank * 1000 + i) * 1000 + k; }

  void fill() {
    memory.assign(count, std::vector<int>(ints));
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < ints; ++k) memory[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] = value(i, k);
  }
  void clear() { memory.assign(count, std::vector<int>(ints, -1)); }
  void done(int i, const MPI_Status& status) {
    if (!CHECK(i >= 0 && i < count)) return;
    ++times_done[static_cast<std::size_t>(i)];
    CHECK_EQ(check::count_in(status, MPI_INT), ints);
    CHECK(requests[static_cast<std::size_t>(i)] == MPI_REQUEST_NULL);
  }
  void check_all_done() {
    for (int times : times_done) CHECK_EQ(times, 1);
    for (MPI_Request request : requests) CHECK(request == MPI_REQUEST_NULL);
  }
  void check_values() {
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < ints; ++k)
        if (!CHECK_EQ(memory[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)], value(i, k))) return;
  }
};

using Completion = std::function<void(Blocks*)>;

void start_all(MPI_File file, bool writing, Blocks* blocks) {
  for (std::size_t i = 0; i < count; ++i) {
    const MPI_Offset place = Blocks::place(static_cast<int>(i));
    CHECK_OK(writing ? MPI_File_iwrite_at(file, place, blocks->memory[i].data(), ints, MPI_INT, &blocks->requests[i])
                     : MPI_File_iread_at(file, place, blocks->memory[i].data(), ints, MPI_INT, &blocks->requests[i]));
  }
}

/// Writes all blocks, then reads them, completing both in the given way.
void complete_by(const Completion& complete) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (bool writing : {true, false}) {
    Blocks blocks;
    if (writing)
      blocks.fill();
    else
      blocks.clear();
    start_all(file, writing, &blocks);
    complete(&blocks);
    blocks.check_all_done();
    blocks.check_values();
  }
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 4 * ints * count * check::size);
}

/// Calls `poll` until it says that all is done; gives up at some point rather than never.
void poll_until(const std::function<bool()>& poll) {
  for (long tries = 0; tries < 50'000'000; ++tries)
    if (poll()) return;
  CHECK(!"requests never completed");
}

}  // namespace

TEST(wait) {
  complete_by([](Blocks* blocks) {
    for (int i = count - 1; i >= 0; --i) {
      MPI_Status status;
      CHECK_OK(MPI_Wait(&blocks->requests[static_cast<std::size_t>(i)], &status));
      blocks->done(i, status);
    }
  });
}

TEST(waitall) {
  complete_by([](Blocks* blocks) {
    MPI_Status statuses[count];
    CHECK_OK(MPI_Waitall(count, blocks->requests.data(), statuses));
    for (int i = 0; i < count; ++i) blocks->done(i, statuses[i]);
  });
}

TEST(waitall_without_statuses) {
  complete_by([](Blocks* blocks) {
    CHECK_OK(MPI_Waitall(count, blocks->requests.data(), MPI_STATUSES_IGNORE));
    std::fill(blocks->times_done.begin(), blocks->times_done.end(), 1);
  });
}

TEST(waitany) {
  complete_by([](Blocks* blocks) {
    for (int n = 0; n < count; ++n) {
      int i = -1;
      MPI_Status status;
      CHECK_OK(MPI_Waitany(count, blocks->requests.data(), &i, &status));
      blocks->done(i, status);
    }
    int i = 0;
    CHECK_OK(MPI_Waitany(count, blocks->requests.data(), &i, MPI_STATUS_IGNORE));
    CHECK_EQ(i, MPI_UNDEFINED);
  });
}

TEST(waitsome) {
  complete_by([](Blocks* blocks) {
    for (int n = 0; n < count;) {
      int completed = 0, indices[count];
      MPI_Status statuses[count];
      CHECK_OK(MPI_Waitsome(count, blocks->requests.data(), &completed, indices, statuses));
      if (!CHECK(completed > 0)) break;
      for (int k = 0; k < completed; ++k) blocks->done(indices[k], statuses[k]);
      n += completed;
    }
  });
}

TEST(test) {
  complete_by([](Blocks* blocks) {
    for (int i = 0; i < count; ++i)
      poll_until([&] {
        int flag = 0;
        MPI_Status status;
        CHECK_OK(MPI_Test(&blocks->requests[static_cast<std::size_t>(i)], &flag, &status));
        if (flag) blocks->done(i, status);
        return flag != 0;
      });
  });
}

TEST(testall) {
  complete_by([](Blocks* blocks) {
    poll_until([&] {
      int flag = 0;
      MPI_Status statuses[count];
      CHECK_OK(MPI_Testall(count, blocks->requests.data(), &flag, statuses));
      for (int i = 0; flag && i < count; ++i) blocks->done(i, statuses[i]);
      return flag != 0;
    });
  });
}

TEST(testany) {
  complete_by([](Blocks* blocks) {
    int n = 0;
    poll_until([&] {
      int i = -1, flag = 0;
      MPI_Status status;
      CHECK_OK(MPI_Testany(count, blocks->requests.data(), &i, &flag, &status));
      if (flag && i != MPI_UNDEFINED) blocks->done(i, status), ++n;
      return n == count;
    });
  });
}

TEST(testsome) {
  complete_by([](Blocks* blocks) {
    int n = 0;
    poll_until([&] {
      int completed = 0, indices[count];
      MPI_Status statuses[count];
      CHECK_OK(MPI_Testsome(count, blocks->requests.data(), &completed, indices, statuses));
      for (int k = 0; k < completed; ++k) blocks->done(indices[k], statuses[k]);
      n += completed == MPI_UNDEFINED ? count : completed;
      return n >= count;
    });
  });
}

/// MPICH completes our requests in Wait and Test only: its MPI_Request_get_status asks nobody outside (README, limits).
bool get_status_may_lag() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  return check::preloaded() && std::string(version).find("Open MPI") == std::string::npos;
}

TEST(request_get_status) {
  complete_by([](Blocks* blocks) {
    int tries = 0;
    for (int i = 0; i < count; ++i) {
      MPI_Request* request = &blocks->requests[static_cast<std::size_t>(i)];
      poll_until([&] {
        if (get_status_may_lag() && ++tries > 100) return true;
        int flag = 0;
        MPI_Status status;
        CHECK_OK(MPI_Request_get_status(*request, &flag, &status));
        if (flag) CHECK_EQ(check::count_in(status, MPI_INT), ints);
        return flag != 0;
      });
      CHECK(*request != MPI_REQUEST_NULL);  // looking does not free
      MPI_Status status;
      CHECK_OK(MPI_Wait(request, &status));
      blocks->done(i, status);
    }
  });
}

TEST(mixed_with_messages) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const int next = (check::rank + 1) % check::size, previous = (check::rank + check::size - 1) % check::size;
  for (int round = 0; round < 20; ++round) {
    int out = 100 * round + check::rank, in = -1, stored = 7 * round + check::rank;
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[4];
    MPI_Irecv(&in, 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &requests[0]);
    CHECK_OK(MPI_File_iwrite_at(file, 4 * (round * check::size + check::rank), &stored, 1, MPI_INT, &requests[1]));
    MPI_Isend(&out, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[3]);
    CHECK_OK(MPI_Waitall(4, requests, statuses));
    CHECK_EQ(in, 100 * round + previous);
    CHECK_EQ(statuses[0].MPI_SOURCE, previous);
    CHECK_EQ(check::count_in(statuses[1], MPI_INT), 1);
    int back = -1;
    CHECK_OK(MPI_File_read_at(file, 4 * (round * check::size + check::rank), &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, stored);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(waitany_over_files_and_messages) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int token = -1, value = check::rank;
  MPI_Request requests[2];
  MPI_Irecv(&token, 1, MPI_INT, check::rank, 9, MPI_COMM_WORLD, &requests[0]);
  CHECK_OK(MPI_File_iwrite_at(file, 4 * check::rank, &value, 1, MPI_INT, &requests[1]));
  int i = -1;
  CHECK_OK(MPI_Waitany(2, requests, &i, MPI_STATUS_IGNORE));
  CHECK_EQ(i, 1);  // nobody has sent yet
  MPI_Send(&value, 1, MPI_INT, check::rank, 9, MPI_COMM_WORLD);
  CHECK_OK(MPI_Waitany(2, requests, &i, MPI_STATUS_IGNORE));
  CHECK_EQ(i, 0);
  CHECK_EQ(token, check::rank);
  CHECK_OK(MPI_File_close(&file));
}

TEST(many_outstanding) {
  constexpr int many = 2000;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_set_view(file, 4 * many * check::rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  std::vector<int> values(many), back(many, -1);
  std::vector<MPI_Request> requests(many);
  for (std::size_t i = 0; i < many; ++i) {
    values[i] = check::rank * many + static_cast<int>(i);
    CHECK_OK(MPI_File_iwrite(file, &values[i], 1, MPI_INT, &requests[i]));
  }
  CHECK_OK(MPI_Waitall(many, requests.data(), MPI_STATUSES_IGNORE));
  CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
  for (std::size_t i = 0; i < many; ++i) CHECK_OK(MPI_File_iread(file, &back[i], 1, MPI_INT, &requests[i]));
  CHECK_OK(MPI_Waitall(many, requests.data(), MPI_STATUSES_IGNORE));
  CHECK_BYTES(back.data(), values.data(), many * 4);
  CHECK_OK(MPI_File_close(&file));
}

TEST(strided_and_large) {
  // Two transfers of 4 MiB through a strided view, in flight together.
  constexpr int big = 1 << 20;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype block, filetype;
  MPI_Type_contiguous(256, MPI_INT, &block);
  MPI_Type_create_resized(block, 0, 1024 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 1024 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  std::vector<int> one(big, check::rank + 1), two(big, -check::rank - 1), back(big);
  MPI_Request requests[2];
  CHECK_OK(MPI_File_iwrite(file, one.data(), big, MPI_INT, &requests[0]));
  CHECK_OK(MPI_File_iwrite(file, two.data(), big, MPI_INT, &requests[1]));
  CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back.data(), big, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back.data(), one.data(), big * 4u);
  CHECK_OK(MPI_File_read_at_all(file, big, back.data(), big, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back.data(), two.data(), big * 4u);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&block);
  MPI_Type_free(&filetype);
}

TEST(type_may_be_freed_while_in_flight) {
  // Section 5.1.9: freeing a datatype does not disturb communication that uses it.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int values[20], back[10] = {};
  for (int i = 0; i < 20; ++i) values[i] = 100 * check::rank + i;
  MPI_Datatype every_other;
  MPI_Type_vector(10, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  MPI_Request request;
  CHECK_OK(MPI_File_iwrite_at(file, 40 * check::rank, values, 1, every_other, &request));
  MPI_Type_free(&every_other);
  CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 40 * check::rank, back, 10, MPI_INT, MPI_STATUS_IGNORE));
  for (int i = 0; i < 10; ++i) CHECK_EQ(back[i], values[2 * i]);
  CHECK_OK(MPI_File_close(&file));
}

TEST(collectives_in_flight_together) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  constexpr int several = 8;
  int values[several], back[several];
  MPI_Request requests[several];
  for (int i = 0; i < several; ++i) {
    values[i] = 10 * i + check::rank, back[i] = -1;
    CHECK_OK(MPI_File_iwrite_at_all(file, 4 * (i * check::size + check::rank), &values[i], 1, MPI_INT, &requests[i]));
  }
  MPI_Status statuses[several];
  CHECK_OK(MPI_Waitall(several, requests, statuses));
  for (int i = 0; i < several; ++i) CHECK_EQ(check::count_in(statuses[i], MPI_INT), 1);
  check::sync_all(file);
  for (int i = 0; i < several; ++i)
    CHECK_OK(MPI_File_iread_at_all(file, 4 * (i * check::size + check::rank), &back[i], 1, MPI_INT, &requests[i]));
  for (int i = several - 1; i >= 0; --i) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)

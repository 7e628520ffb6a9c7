// MPI_THREAD_MULTIPLE: threads of one rank use one file and several files at the same time (MPI 4.1 sections 11.6, 14.6.5).
// ranks: 1 2 3
// time limit: 120
#include "check.h"

#include <functional>
#include <mutex>
#include <thread>

using check::open_on_world;
using check::scratch;

namespace {

constexpr int threads = 4;
constexpr int rounds = 100;

/// Runs body(thread) on all threads; a body returns whether all went well, because checks are for the main thread.
void on_threads(const std::function<bool(int)>& body) {
  std::vector<std::thread> running;
  std::vector<char> well(threads, 0);
  for (int t = 0; t < threads; ++t) running.emplace_back([&, t] { well[static_cast<std::size_t>(t)] = body(t); });
  for (std::thread& thread : running) thread.join();
  for (int t = 0; t < threads; ++t)
    check::expect_true(well[static_cast<std::size_t>(t)], ("success on thread " + std::to_string(t)).c_str(), __FILE__, __LINE__);
}

bool multiple() {
  if (check::thread_level >= MPI_THREAD_MULTIPLE) return true;
  if (check::rank == 0) std::fprintf(stderr, "%s: this MPI gives no MPI_THREAD_MULTIPLE, so there is nothing to test\n", check::current.c_str());
  return false;
}

int lane(int t) { return check::rank * threads + t; }
int lanes() { return check::size * threads; }

}  // namespace

TEST(one_file_by_offsets) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  on_threads([&](int t) {
    for (int i = 0; i < rounds; ++i) {
      const int value = lane(t) * rounds + i;
      int back = -1;
      const MPI_Offset place = 4 * (MPI_Offset(i) * lanes() + lane(t));
      MPI_Status status;
      if (MPI_File_write_at(file, place, &value, 1, MPI_INT, &status) != MPI_SUCCESS || check::count_in(status, MPI_INT) != 1) return false;
      if (MPI_File_read_at(file, place, &back, 1, MPI_INT, &status) != MPI_SUCCESS || back != value) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), 4u * rounds * static_cast<unsigned>(lanes()))) return;
  const int* got = reinterpret_cast<const int*>(bytes.data());
  for (int i = 0; i < rounds; ++i)
    for (int l = 0; l < lanes(); ++l)
      if (!CHECK_EQ(got[i * lanes() + l], l * rounds + i)) return;
}

TEST(one_file_through_a_strided_view) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, 4 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  on_threads([&](int t) {
    std::vector<int> mine(50), back(50);
    for (int i = 0; i < rounds; ++i) {
      for (std::size_t k = 0; k < 50; ++k) mine[k] = (lane(t) * rounds + i) * 50 + static_cast<int>(k);
      const MPI_Offset place = (MPI_Offset(i) * threads + t) * 50;
      if (MPI_File_write_at(file, place, mine.data(), 50, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (MPI_File_read_at(file, place, back.data(), 50, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS || back != mine) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(one_file_nonblocking) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  on_threads([&](int t) {
    for (int round = 0; round < 10; ++round) {
      int values[10], back[10];
      MPI_Request requests[10];
      for (int i = 0; i < 10; ++i) {
        values[i] = (lane(t) * 10 + round) * 10 + i;
        const MPI_Offset place = 4 * (MPI_Offset(round * 10 + i) * lanes() + lane(t));
        if (MPI_File_iwrite_at(file, place, &values[i], 1, MPI_INT, &requests[i]) != MPI_SUCCESS) return false;
      }
      if (MPI_Waitall(10, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return false;
      for (int i = 0; i < 10; ++i) {
        const MPI_Offset place = 4 * (MPI_Offset(round * 10 + i) * lanes() + lane(t));
        if (MPI_File_iread_at(file, place, &back[i], 1, MPI_INT, &requests[i]) != MPI_SUCCESS) return false;
      }
      if (MPI_Waitall(10, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return false;
      if (std::memcmp(values, back, sizeof values) != 0) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
}

TEST(individual_pointer_shared_by_threads) {
  // Which thread gets which place is open; that every record is there once is not (section 14.6.5: as if in some order).
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const MPI_Offset base = MPI_Offset(4) * rounds * threads * check::rank;
  CHECK_OK(MPI_File_seek(file, base, MPI_SEEK_SET));
  on_threads([&](int t) {
    for (int i = 0; i < rounds; ++i) {
      const int value = t * rounds + i;
      if (MPI_File_write(file, &value, 4, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    }
    return true;
  });
  std::vector<int> got(rounds * threads);
  CHECK_OK(MPI_File_read_at(file, base, got.data(), 4 * rounds * threads, MPI_BYTE, MPI_STATUS_IGNORE));
  std::sort(got.begin(), got.end());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!CHECK_EQ(got[i], static_cast<int>(i))) break;
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_pointer_by_threads) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  on_threads([&](int t) {
    for (int i = 0; i < rounds; ++i) {
      const int value = lane(t) * rounds + i;
      if (MPI_File_write_shared(file, &value, 4, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), 4u * rounds * static_cast<unsigned>(lanes()))) return;
  std::vector<int> got(bytes.size() / 4);
  std::memcpy(got.data(), bytes.data(), bytes.size());
  std::sort(got.begin(), got.end());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!CHECK_EQ(got[i], static_cast<int>(i))) break;
}

TEST(asking_and_giving_hints_while_others_write) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, 4 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  on_threads([&](int t) {
    for (int i = 0; i < rounds; ++i) {
      if (t == 0) {
        MPI_Info given, used;
        MPI_Info_create(&given);
        MPI_Info_set(given, "ind_wr_buffer_size", i % 2 == 0 ? "65536" : "131072");
        if (MPI_File_set_info(file, given) != MPI_SUCCESS || MPI_Info_free(&given) != MPI_SUCCESS) return false;
        if (MPI_File_get_info(file, &used) != MPI_SUCCESS || MPI_Info_free(&used) != MPI_SUCCESS) return false;
        MPI_Offset number;
        MPI_Datatype etype, asked;
        char representation[MPI_MAX_DATAREP_STRING];
        if (MPI_File_get_view(file, &number, &etype, &asked, representation) != MPI_SUCCESS || number != 4 * check::rank) return false;
        MPI_Type_free(&asked);
        if (MPI_File_get_byte_offset(file, i, &number) != MPI_SUCCESS || number != 4 * (MPI_Offset(i) * check::size + check::rank)) return false;
        if (MPI_File_get_size(file, &number) != MPI_SUCCESS || MPI_File_get_position(file, &number) != MPI_SUCCESS) return false;
        MPI_Errhandler handler;
        if (MPI_File_get_errhandler(file, &handler) != MPI_SUCCESS || MPI_File_set_errhandler(file, handler) != MPI_SUCCESS) return false;
        MPI_Errhandler_free(&handler);
        continue;
      }
      int mine[50], back[50];
      for (int k = 0; k < 50; ++k) mine[k] = (lane(t) * rounds + i) * 50 + k;
      const MPI_Offset place = (MPI_Offset(i) * threads + t) * 50;
      MPI_Request request;
      if (i % 2 == 0) {
        if (MPI_File_write_at(file, place, mine, 50, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      } else {
        if (MPI_File_iwrite_at(file, place, mine, 50, MPI_INT, &request) != MPI_SUCCESS) return false;
        if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      }
      if (MPI_File_read_at(file, place, back, 50, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS || std::memcmp(mine, back, sizeof mine) != 0) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(setting_views_while_others_read) {
  // Each read sees one view or the other whole.
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  constexpr int total = 4000;
  std::vector<int> content(total);
  for (int i = 0; i < total; ++i) content[static_cast<std::size_t>(i)] = i;
  CHECK_OK(MPI_File_write_at_all(file, 0, content.data(), total * static_cast<int>(sizeof(int)), MPI_BYTE, MPI_STATUS_IGNORE));
  MPI_Datatype every_second;
  MPI_Type_create_resized(MPI_INT, 0, 8, &every_second);
  MPI_Type_commit(&every_second);
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, every_second, "native", MPI_INFO_NULL));
  on_threads([&](int t) {
    for (int i = 0; i < rounds; ++i) {
      if (t == 0) {
        if (MPI_File_set_view(file, i % 2 == 0 ? 400 : 0, MPI_INT, i % 2 == 0 ? MPI_INT : every_second, "native", MPI_INFO_NULL) != MPI_SUCCESS) return false;
        continue;
      }
      constexpr int count = 100;
      int got[count];
      MPI_Request request;
      const MPI_Offset place = 10 * (i % 50);
      if (i % 2 == 0) {
        if (MPI_File_read_at(file, place, got, count, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      } else {
        if (MPI_File_iread_at(file, place, got, count, MPI_INT, &request) != MPI_SUCCESS) return false;
        if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      }
      const bool dense = got[1] == got[0] + 1;
      for (int k = 0; k < count; ++k)
        if (got[k] != (dense ? 100 + static_cast<int>(place) + k : 2 * (static_cast<int>(place) + k))) return false;
    }
    return true;
  });
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&every_second);
}

TEST(several_files_collectively) {
  // Every thread has a communicator and a file of its own and makes collective calls on them.
  if (!multiple()) return;
  MPI_Comm comms[threads];
  std::string names[threads];
  for (int t = 0; t < threads; ++t) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]), names[t] = scratch(std::to_string(t));
  on_threads([&](int t) {
    for (int i = 0; i < 5; ++i) {
      MPI_File file;
      if (MPI_File_open(comms[t], names[t].c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return false;
      const int value = 100 * t + 10 * i + check::rank;
      int back = -1;
      if (MPI_File_write_at_all(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (MPI_File_read_at_all(file, 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS || back != value) return false;
      MPI_Request request;
      if (MPI_File_iread_at_all(file, 4 * check::rank, &back, 1, MPI_INT, &request) != MPI_SUCCESS) return false;
      if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS || back != value) return false;
      if (MPI_File_close(&file) != MPI_SUCCESS) return false;
    }
    return true;
  });
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

TEST(files_of_single_threads) {
  // Every thread opens, writes, closes and deletes files of its own on MPI_COMM_SELF.
  if (!multiple()) return;
  std::string names[threads];
  for (int t = 0; t < threads; ++t) names[t] = check::own_scratch(std::to_string(t) + "of");
  on_threads([&](int t) {
    for (int i = 0; i < 10; ++i) {
      // Two threads may not use one communicator for collective calls at the same time, so each opens in its turn.
      static std::mutex opening;
      MPI_File file;
      {
        const std::lock_guard<std::mutex> turn(opening);
        if (MPI_File_open(MPI_COMM_SELF, names[t].c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return false;
      }
      std::vector<int> mine(1000, t * 10 + i), back(1000);
      if (MPI_File_write(file, mine.data(), 1000, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (MPI_File_read_at(file, 0, back.data(), 1000, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS || back != mine) return false;
      const std::lock_guard<std::mutex> turn(opening);
      if (MPI_File_close(&file) != MPI_SUCCESS) return false;
      if (MPI_File_delete(names[t].c_str(), MPI_INFO_NULL) != MPI_SUCCESS) return false;
    }
    return true;
  });
}

TEST(waiting_in_one_thread_for_requests_of_another) {
  MPI_File file;
  if (!multiple() || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  std::vector<int> values(threads * 20);
  std::vector<MPI_Request> requests(threads * 20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = check::rank * 1000 + static_cast<int>(i);
    CHECK_OK(MPI_File_iwrite_at(file, 4 * (check::rank * static_cast<int>(values.size()) + static_cast<int>(i)), &values[i], 1, MPI_INT, &requests[i]));
  }
  on_threads([&](int t) { return MPI_Waitall(20, &requests[static_cast<std::size_t>(20 * t)], MPI_STATUSES_IGNORE) == MPI_SUCCESS; });
  std::vector<int> back(values.size());
  CHECK_OK(MPI_File_read_at(file, 4 * check::rank * static_cast<int>(values.size()), back.data(), static_cast<int>(back.size()), MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back.data(), values.data(), values.size() * 4);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_MULTIPLE)

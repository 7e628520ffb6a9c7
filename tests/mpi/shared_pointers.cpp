// Shared file pointers: every record exactly once, ordered calls in rank order (MPI 4.1 section 14.4.4).
// ranks: 1 2 3 4
// time limit: 120
#include "calls.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int per_rank = 200;

struct Record {
  int rank;
  int number;
  int check;  // a torn or mixed record does not fit it
};

Record record_of(int rank, int number) { return {rank, number, rank * 1000003 + number * 7919 + 5}; }

bool is_whole(const Record& record) { return record.check == record_of(record.rank, record.number).check; }

MPI_Datatype record_type() {
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

bool open_for_records(int amode, MPI_Datatype type, MPI_File* file) {
  if (!open_on_world(scratch(), amode, file)) return false;
  CHECK_OK(MPI_File_set_view(*file, 0, type, type, "native", MPI_INFO_NULL));
  return true;
}

/// Rank 0 looks at the file: `count` records, each of every rank exactly once, and those of one rank in ascending order.
void check_records(int count, bool ascending) {
  check::barrier();
  if (check::rank != 0) return;
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), sizeof(Record) * static_cast<std::size_t>(count) * static_cast<std::size_t>(check::size))) return;
  const Record* records = reinterpret_cast<const Record*>(bytes.data());
  std::vector<std::vector<int>> seen(static_cast<std::size_t>(check::size));
  for (int i = 0; i < count * check::size; ++i) {
    if (!CHECK(is_whole(records[i])) || !CHECK(records[i].rank >= 0 && records[i].rank < check::size)) return;
    seen[static_cast<std::size_t>(records[i].rank)].push_back(records[i].number);
  }
  for (std::vector<int>& numbers : seen) {
    if (ascending) CHECK(std::is_sorted(numbers.begin(), numbers.end()));
    std::sort(numbers.begin(), numbers.end());
    CHECK_EQ(numbers.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!CHECK_EQ(numbers[i], static_cast<int>(i))) break;
  }
}

void make_records() {
  check::Bytes bytes(sizeof(Record) * static_cast<std::size_t>(per_rank * check::size));
  for (int i = 0; i < per_rank * check::size; ++i) {
    const Record record = record_of(0, i);
    std::memcpy(bytes.data() + sizeof(Record) * static_cast<std::size_t>(i), &record, sizeof record);
  }
  check::make_file_for_all(scratch(), bytes);
}

/// What all ranks read together is every record exactly once.
void check_read(const std::vector<Record>& mine) {
  std::vector<int> times(static_cast<std::size_t>(per_rank * check::size), 0);
  int last = -1;
  for (const Record& record : mine) {
    if (!CHECK(is_whole(record)) || !CHECK(record.number >= 0 && record.number < per_rank * check::size)) continue;
    ++times[static_cast<std::size_t>(record.number)];
    CHECK(record.number > last);  // a rank's own calls move forward
    last = record.number;
  }
  MPI_Allreduce(MPI_IN_PLACE, times.data(), static_cast<int>(times.size()), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < times.size(); ++i)
    if (!check::expect_equal(times[i], 1, ("times record " + std::to_string(i) + " was read").c_str(), __FILE__, __LINE__)) break;
}

}  // namespace

TEST(write_shared_by_all) {
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_CREATE | MPI_MODE_WRONLY, type, &file)) {
    for (int i = 0; i < per_rank; ++i) {
      const Record record = record_of(check::rank, i);
      CHECK_OK(MPI_File_write_shared(file, &record, 1, type, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_File_close(&file));
    check_records(per_rank, true);
  }
  MPI_Type_free(&type);
}

TEST(iwrite_shared_by_all) {
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_CREATE | MPI_MODE_WRONLY, type, &file)) {
    std::vector<Record> records(per_rank);
    std::vector<MPI_Request> requests(per_rank, MPI_REQUEST_NULL);
    for (int i = 0; i < per_rank; ++i) {
      records[static_cast<std::size_t>(i)] = record_of(check::rank, i);
      CHECK_OK(MPI_File_iwrite_shared(file, &records[static_cast<std::size_t>(i)], 1, type, &requests[static_cast<std::size_t>(i)]));
    }
    CHECK_OK(MPI_Waitall(per_rank, requests.data(), MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    check_records(per_rank, true);
  }
  MPI_Type_free(&type);
}

TEST(write_shared_of_many_sizes) {
  // Blocks of 1 to 7 records: a block lies together.
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_CREATE | MPI_MODE_WRONLY, type, &file)) {
    int written = 0;
    while (written < per_rank) {
      const int count = std::min(1 + (written + check::rank) % 7, per_rank - written);
      std::vector<Record> block;
      for (int i = 0; i < count; ++i) block.push_back(record_of(check::rank, written + i));
      MPI_Status status;
      CHECK_OK(MPI_File_write_shared(file, block.data(), count, type, &status));
      CHECK_EQ(check::count_in(status, type), count);
      written += count;
    }
    CHECK_OK(MPI_File_close(&file));
    check_records(per_rank, true);
  }
  MPI_Type_free(&type);
}

TEST(read_shared_by_all) {
  make_records();
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_RDONLY, type, &file)) {
    std::vector<Record> mine;
    for (;;) {
      Record record = {};
      MPI_Status status;
      if (!CHECK_OK(MPI_File_read_shared(file, &record, 1, type, &status)) || check::count_in(status, type) != 1) break;
      mine.push_back(record);
    }
    check_read(mine);
    CHECK_OK(MPI_File_close(&file));
  }
  MPI_Type_free(&type);
}

TEST(iread_shared_by_all) {
  make_records();
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_RDONLY, type, &file)) {
    std::vector<Record> mine(per_rank);
    std::vector<MPI_Request> requests(per_rank, MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < per_rank; ++i) CHECK_OK(MPI_File_iread_shared(file, &mine[i], 1, type, &requests[i]));
    CHECK_OK(MPI_Waitall(per_rank, requests.data(), MPI_STATUSES_IGNORE));
    check_read(mine);
    CHECK_OK(MPI_File_close(&file));
  }
  MPI_Type_free(&type);
}

TEST(ordered_writes_are_in_rank_order) {
  // In round i, rank r writes r + i % 3 records.
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_CREATE | MPI_MODE_WRONLY, type, &file)) {
    constexpr int rounds = 20;
    for (int i = 0; i < rounds; ++i) {
      const std::vector<Record> block(static_cast<std::size_t>(check::rank + i % 3), record_of(check::rank, i));
      MPI_Status status;
      if (i % 2) {
        CHECK_OK(MPI_File_write_ordered(file, block.data(), static_cast<int>(block.size()), type, &status));
      } else {
        CHECK_OK(MPI_File_write_ordered_begin(file, block.data(), static_cast<int>(block.size()), type));
        CHECK_OK(MPI_File_write_ordered_end(file, block.data(), &status));
      }
      CHECK_EQ(check::count_in(status, type), static_cast<int>(block.size()));
    }
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    const check::Bytes bytes = check::contents(scratch());
    const Record* got = reinterpret_cast<const Record*>(bytes.data());
    std::size_t at = 0;
    for (int i = 0; i < rounds; ++i)
      for (int r = 0; r < check::size; ++r)
        for (int k = 0; k < r + i % 3; ++k, ++at) {
          if (!CHECK(at < bytes.size() / sizeof(Record))) return;
          CHECK(is_whole(got[at]));
          CHECK_EQ(got[at].rank, r);
          CHECK_EQ(got[at].number, i);
        }
    CHECK_EQ(bytes.size(), at * sizeof(Record));
  }
  MPI_Type_free(&type);
}

TEST(ordered_reads_are_in_rank_order) {
  make_records();
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_RDONLY, type, &file)) {
    int first = 0;
    for (int round = 0; round < 10; ++round) {
      // Rank r reads r + 1 records.
      std::vector<Record> block(static_cast<std::size_t>(check::rank) + 1);
      CHECK_OK(MPI_File_read_ordered(file, block.data(), check::rank + 1, type, MPI_STATUS_IGNORE));
      int mine = first;
      for (int r = 0; r < check::rank; ++r) mine += r + 1;
      for (int k = 0; k <= check::rank; ++k) CHECK_EQ(block[static_cast<std::size_t>(k)].number, mine + k);
      for (int r = 0; r < check::size; ++r) first += r + 1;
    }
    CHECK_OK(MPI_File_close(&file));
  }
  MPI_Type_free(&type);
}

TEST(shared_and_ordered_mixed) {
  MPI_Datatype type = record_type();
  MPI_File file;
  if (open_for_records(MPI_MODE_CREATE | MPI_MODE_RDWR, type, &file)) {
    int number = 0;
    for (int round = 0; round < 10; ++round) {
      Record record = record_of(check::rank, number++);
      CHECK_OK(MPI_File_write_ordered(file, &record, 1, type, MPI_STATUS_IGNORE));
      for (int i = 0; i < 5; ++i) {
        record = record_of(check::rank, number++);
        CHECK_OK(MPI_File_write_shared(file, &record, 1, type, MPI_STATUS_IGNORE));
      }
      check::barrier();  // shared calls of this round come before the ordered one of the next
    }
    MPI_Offset position = -1;
    CHECK_OK(MPI_File_get_position_shared(file, &position));
    CHECK_EQ(position, number * check::size);
    CHECK_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 0);
    CHECK_OK(MPI_File_close(&file));
    check_records(number, true);
  }
  MPI_Type_free(&type);
}

TEST(view_with_holes) {
  // Records of 12 bytes every 20: nothing else is touched.
  MPI_Datatype type = record_type(), wide;
  MPI_Type_create_resized(type, 0, 20, &wide);
  MPI_Type_commit(&wide);
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(20 * 50 * check::size), 0xCC));
  MPI_File file;
  if (open_on_world(scratch(), MPI_MODE_RDWR, &file)) {
    CHECK_OK(MPI_File_set_view(file, 0, type, wide, "native", MPI_INFO_NULL));
    for (int i = 0; i < 50; ++i) {
      const Record record = record_of(check::rank, i);
      CHECK_OK(MPI_File_write_shared(file, &record, 1, type, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    if (check::rank == 0) {
      const check::Bytes bytes = check::contents(scratch());
      const check::Bytes gap(8, 0xCC);
      if (CHECK_EQ(bytes.size(), static_cast<std::size_t>(20 * 50 * check::size)))
        for (int i = 0; i < 50 * check::size; ++i) {
          Record record;
          std::memcpy(&record, bytes.data() + 20 * i, sizeof record);
          if (!CHECK(is_whole(record)) || !CHECK_BYTES(bytes.data() + 20 * i + 12, gap.data(), 8)) break;
        }
    }
  }
  MPI_Type_free(&wide);
  MPI_Type_free(&type);
}

TEST(no_files_left_beside) {
  // Shared pointers leave no lock or pointer file beside the data file.
  MPI_File file;
  if (!open_on_world(scratch("data"), MPI_MODE_CREATE | MPI_MODE_WRONLY, &file)) return;
  const char letter = 'x';
  CHECK_OK(MPI_File_write_shared(file, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) {
    std::FILE* listing = popen(("ls -A '" + check::directory + "' | grep -c no_files_left_beside").c_str(), "r");
    int names = -1;
    if (CHECK(listing != nullptr)) {
      CHECK_EQ(std::fscanf(listing, "%d", &names), 1);
      pclose(listing);
      CHECK_EQ(names, 1);
    }
  }
}

TEST_MAIN(MPI_THREAD_SINGLE)

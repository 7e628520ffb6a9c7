// Ranks that write disjoint bytes at the same time never disturb each other, whatever mix of calls, views and hints they
// use (MPI 4.1 section 14.6.1).  The hazard: a write that reads a stretch, changes a part and writes all of it back.
// ranks: 2 4
// thorough: 3:
// thorough: 8:
// time limit: 180
#include "calls.h"

#include <random>

using check::open_on_world;
using check::scratch;

namespace {

constexpr int blocks = 60;  // pieces of each rank per round
constexpr int rounds = 40;

unsigned char byte_of(int round, int owner, int i) { return static_cast<unsigned char>(round * 31 + owner * 7 + i * 3 + 1); }

/// One round's layout: piece b of rank r lies at (b * size + r) * length.
struct Layout {
  int length = 8;
  [[nodiscard]] MPI_Offset place(int block, int owner) const { return MPI_Offset(block * check::size + owner) * length; }
};

/// A view of this rank's pieces only.
void view_own_pieces(MPI_File file, const Layout& layout) {
  MPI_Datatype piece, filetype;
  MPI_Type_contiguous(layout.length, MPI_BYTE, &piece);
  MPI_Type_create_resized(piece, 0, layout.length * check::size, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, layout.place(0, check::rank), MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&piece);
  MPI_Type_free(&filetype);
}

void view_bytes(MPI_File file) { CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL)); }

/// Writes pieces [first, last) of this rank through a handle of its own, in one of several ways.
void write_alone(MPI_File file, const Layout& layout, const std::vector<unsigned char>& mine, int first, int last, int way) {
  const auto at = [&](int block) { return mine.data() + block * layout.length; };
  const int bytes = (last - first) * layout.length;
  if (bytes == 0) return;
  if (way == 0) {  // piece by piece, backwards
    view_bytes(file);
    for (int block = last - 1; block >= first; --block)
      CHECK_OK(MPI_File_write_at(file, layout.place(block, check::rank), at(block), layout.length, MPI_BYTE, MPI_STATUS_IGNORE));
  } else if (way == 1) {  // through a strided view, all at once
    view_own_pieces(file, layout);
    CHECK_OK(MPI_File_write_at(file, MPI_Offset(first) * layout.length, at(first), bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  } else if (way == 2) {  // through a strided view, nonblocking, in two halves
    view_own_pieces(file, layout);
    const int half = bytes / 2;
    MPI_Request requests[2];
    CHECK_OK(MPI_File_iwrite_at(file, MPI_Offset(first) * layout.length, at(first), half, MPI_BYTE, &requests[0]));
    CHECK_OK(MPI_File_iwrite_at(file, MPI_Offset(first) * layout.length + half, at(first) + half, bytes - half, MPI_BYTE, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  } else if (way == 3) {  // by the individual pointer
    view_own_pieces(file, layout);
    CHECK_OK(MPI_File_seek(file, MPI_Offset(first) * layout.length, MPI_SEEK_SET));
    for (int block = first; block < last; ++block)
      CHECK_OK(MPI_File_write(file, at(block), layout.length, MPI_BYTE, MPI_STATUS_IGNORE));
  } else {  // bytes one by one, nonblocking
    view_bytes(file);
    std::vector<MPI_Request> requests(static_cast<std::size_t>(bytes));
    for (int i = 0; i < bytes; ++i)
      CHECK_OK(MPI_File_iwrite_at(file, layout.place(first + i / layout.length, check::rank) + i % layout.length, at(first) + i, 1,
                                  MPI_BYTE, &requests[static_cast<std::size_t>(i)]));
    CHECK_OK(MPI_Waitall(bytes, requests.data(), MPI_STATUSES_IGNORE));
  }
}

void check_file(const Layout& layout, int round) {
  if (check::rank != 0) return;
  const check::Bytes bytes = check::contents(scratch());
  const std::size_t expected_size = static_cast<std::size_t>(layout.place(blocks, 0));
  if (!CHECK(bytes.size() >= expected_size)) return;
  int lost = 0;
  for (int block = 0; block < blocks; ++block)
    for (int owner = 0; owner < check::size; ++owner)
      for (int k = 0; k < layout.length; ++k)
        if (bytes[static_cast<std::size_t>(layout.place(block, owner) + k)] != byte_of(round, owner, block * layout.length + k)) ++lost;
  check::expect_equal(lost, 0,
                      ("bytes lost in round " + std::to_string(round) + ", pieces of " + std::to_string(layout.length)).c_str(),
                      __FILE__, __LINE__);
}

/// Each round: every rank writes a part of its pieces alone (its own handle, its own way, maybe its own strategy), and the
/// rest in a collective call that others are in already.
void hammer(unsigned seed, bool with_hints) {
  static const char* const strategies[] = {"independent", "mapped", "sieved", "automatic"};
  std::mt19937 mine_alone(seed + 1000u * static_cast<unsigned>(check::rank)), same_for_all(seed);
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(blocks * check::size * 64), 0));
  MPI_Info info = MPI_INFO_NULL;
  if (with_hints) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_write", check::rank % 2 ? "enable" : "disable");
    MPI_Info_set(info, "penstock_strategy", strategies[(check::rank + static_cast<int>(seed)) % 4]);
  }
  MPI_File together = MPI_FILE_NULL, alone = MPI_FILE_NULL;
  const bool open = open_on_world(scratch(), MPI_MODE_RDWR, &together);
  CHECK_OK(MPI_File_open(MPI_COMM_SELF, scratch().c_str(), MPI_MODE_RDWR, info, &alone));
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  if (!open || !check::all_ranks(alone != MPI_FILE_NULL)) return;
  for (int round = 0; round < rounds; ++round) {
    static const int lengths[] = {1, 3, 8, 13, 64};
    Layout layout;
    layout.length = lengths[same_for_all() % 5];
    std::vector<unsigned char> mine(static_cast<std::size_t>(blocks * layout.length));
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = byte_of(round, check::rank, static_cast<int>(i));
    view_own_pieces(together, layout);
    const bool collective = same_for_all() % 2 == 0, nonblocking = same_for_all() % 2 == 0;
    const int split = collective ? static_cast<int>(mine_alone() % (blocks + 1)) : blocks;
    check::barrier();
    const int middle = static_cast<int>(mine_alone() % static_cast<unsigned>(split + 1));
    MPI_Request request = MPI_REQUEST_NULL;
    const unsigned char* rest = mine.data() + split * layout.length;
    const int rest_bytes = (blocks - split) * layout.length;
    if (collective && nonblocking)
      CHECK_OK(MPI_File_iwrite_at_all(together, MPI_Offset(split) * layout.length, rest, rest_bytes, MPI_BYTE, &request));
    write_alone(alone, layout, mine, 0, middle, static_cast<int>(mine_alone() % 5));
    write_alone(alone, layout, mine, middle, split, static_cast<int>(mine_alone() % 5));
    if (collective && !nonblocking)
      CHECK_OK(MPI_File_write_at_all(together, MPI_Offset(split) * layout.length, rest, rest_bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(alone));
    check::sync_all(together);
    check_file(layout, round);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&alone));
  CHECK_OK(MPI_File_close(&together));
}

}  // namespace

TEST(mixed_ways) { hammer(1, false); }
TEST(mixed_ways_again) { hammer(2, false); }
TEST(mixed_ways_and_strategies) { hammer(3, true); }
TEST(mixed_ways_and_strategies_again) { hammer(4, true); }

TEST(writer_beside_a_steady_writer) {
  // Rank 0 sieves (strided view, large gaps) while the others write single bytes into the gaps, without pause.
  check::make_file_for_all(scratch(), check::Bytes(64 * 1024, 0));
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_ds_write", "enable");
  MPI_Info_set(info, "penstock_strategy", "sieved");
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_SELF, scratch().c_str(), MPI_MODE_RDWR, info, &file);
  MPI_Info_free(&info);
  CHECK_OK(code);
  if (!check::all_ranks(code == MPI_SUCCESS)) return;
  if (check::rank == 0) {
    MPI_Datatype filetype;
    MPI_Type_create_resized(MPI_BYTE, 0, 16, &filetype);
    MPI_Type_commit(&filetype);
    CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    std::vector<unsigned char> mine(4096);
    for (int i = 1; i <= 50; ++i) {
      std::fill(mine.begin(), mine.end(), static_cast<unsigned char>(i));
      CHECK_OK(MPI_File_write_at(file, 0, mine.data(), 4096, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MPI_Type_free(&filetype);
  } else {
    for (int i = 1; i <= 50; ++i)
      for (int block = 0; block < 4096; block += 37) {
        const unsigned char byte = static_cast<unsigned char>(i + check::rank);
        CHECK_OK(MPI_File_write_at(file, 16 * block + check::rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        unsigned char back = 0;
        CHECK_OK(MPI_File_read_at(file, 16 * block + check::rank, &back, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_EQ(back, byte);
      }
  }
  CHECK_OK(MPI_File_sync(file));
  check::barrier();
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  for (std::size_t block = 0; block < 4096; ++block) {
    if (!CHECK_EQ(bytes[16 * block], 50)) return;
    const bool touched = block % 37 == 0;
    for (int r = 1; r < check::size; ++r)
      if (!CHECK_EQ(bytes[16 * block + static_cast<std::size_t>(r)], touched ? 50 + r : 0)) return;
  }
}

TEST_MAIN(MPI_THREAD_SINGLE)

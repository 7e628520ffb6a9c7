// Nobody waits for a rank that has no part in the call: independent calls, and nonblocking collective ones until they are
// waited for (MPI 4.1 sections 2.9, 3.7.4 and 14.6.5).  A wrong implementation hangs here, and the runner's time limit tells.
// ranks: 2 3 4
// run:
// run: PENSTOCK_HINTS=penstock_strategy=two_phase PENSTOCK_RANKS_PER_NODE=2 --test nonblocking_collective_completes_while_others_are_in_other_calls
// run: PENSTOCK_HINTS=penstock_strategy=two_layer PENSTOCK_RANKS_PER_NODE=2 --test nonblocking_collective_completes_while_others_are_in_other_calls
// run: PENSTOCK_HINTS=penstock_strategy=two_phase PENSTOCK_RANKS_PER_NODE=1 --mixed --test nonblocking_collective_completes_while_others_are_in_other_calls
// run: OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_TLS=posix,self --test messages_go_on_while_a_rank_waits_in_any_collective_call
#include "calls.h"

using check::open_on_world;
using check::scratch;

namespace {

void send_token(int to) {
  int token = 1;
  MPI_Send(&token, 1, MPI_INT, to, 77, MPI_COMM_WORLD);
}

void receive_token(int from) {
  int token = 0;
  MPI_Recv(&token, 1, MPI_INT, from, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Rank by rank: `body` runs on a rank only after it has returned on the rank before, which then waits outside the file.
template <typename Body>
void one_after_the_other(Body body) {
  if (check::rank > 0) receive_token(check::rank - 1);
  body();
  if (check::rank + 1 < check::size) send_token(check::rank + 1);
}

bool open_file(MPI_File* file, const std::string& suffix = "file") {
  return open_on_world(scratch(suffix), MPI_MODE_CREATE | MPI_MODE_RDWR, file);
}

/// Outside of MPI until rank 0 has made the named file: no help with progress can come from here.
void wait_outside_of_mpi(const std::string& name) {
  while (!check::exists(name)) usleep(1000);
}

}  // namespace

TEST(nonblocking_collective_is_local_to_start) {
  MPI_File file;
  if (!open_file(&file)) return;
  for (bool at : {false, true})
    for (bool writing : {true, false}) {
      const int mine = 5 + check::rank;
      int value = writing ? mine : -1;
      MPI_Request request = MPI_REQUEST_NULL;
      CHECK_OK(MPI_File_seek(file, 4 * check::rank, MPI_SEEK_SET));
      one_after_the_other([&] {
        const calls::Call call = {at ? calls::Pointer::at : calls::Pointer::individual, calls::Style::nonblocking_collective};
        CHECK_OK(start(call, writing ? calls::Direction::write : calls::Direction::read, file, 4 * check::rank, &value, 1, MPI_INT,
                       &request));
      });
      MPI_Status status;
      CHECK_OK(MPI_Wait(&request, &status));
      CHECK_EQ(check::count_in(status, MPI_INT), 1);
      CHECK_EQ(value, mine);
    }
  CHECK_OK(MPI_File_close(&file));
}

TEST(nonblocking_collective_completes_while_others_are_in_other_calls) {
  // Rank by rank it is waited for; the others have started it, and are inside of a call that has nothing to do with it.
  MPI_File file;
  if (!open_file(&file)) return;
  std::vector<int> values(50000), back(values.size());
  MPI_Datatype view;
  MPI_Type_vector(static_cast<int>(values.size()), 1, check::size, MPI_INT, &view);
  MPI_Type_commit(&view);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, view, "native", MPI_INFO_NULL));
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i) * 8 + check::rank + round;
    for (const bool writing : {true, false}) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int count = static_cast<int>(values.size());
      if (writing)
        CHECK_OK(MPI_File_iwrite_at_all(file, 0, values.data(), count, MPI_INT, &request));
      else
        CHECK_OK(MPI_File_iread_at_all(file, 0, back.data(), count, MPI_INT, &request));
      MPI_Status status;
      one_after_the_other([&] { CHECK_OK(MPI_Wait(&request, &status)); });
      CHECK_EQ(check::count_in(status, MPI_INT), count);
    }
    CHECK(back == values);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&view);
}

TEST(nonblocking_collectives_on_two_files_in_different_order) {
  MPI_File one, two;
  if (!open_file(&one, "one") || !open_file(&two, "two")) return;
  for (int round = 0; round < 10; ++round) {
    int a = 10 * round + check::rank, b = -a - 1, back = 0;
    MPI_Request of_one = MPI_REQUEST_NULL, of_two = MPI_REQUEST_NULL;
    const MPI_Offset place = 4 * (round * check::size + check::rank);
    if (check::rank % 2 == 0) {
      CHECK_OK(MPI_File_iwrite_at_all(one, place, &a, 1, MPI_INT, &of_one));
      CHECK_OK(MPI_File_iwrite_at_all(two, place, &b, 1, MPI_INT, &of_two));
      CHECK_OK(MPI_Wait(&of_one, MPI_STATUS_IGNORE));
      CHECK_OK(MPI_Wait(&of_two, MPI_STATUS_IGNORE));
    } else {
      CHECK_OK(MPI_File_iwrite_at_all(two, place, &b, 1, MPI_INT, &of_two));
      CHECK_OK(MPI_File_iwrite_at_all(one, place, &a, 1, MPI_INT, &of_one));
      CHECK_OK(MPI_Wait(&of_two, MPI_STATUS_IGNORE));
      CHECK_OK(MPI_Wait(&of_one, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_File_read_at(one, place, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, a);
    CHECK_OK(MPI_File_read_at(two, place, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, b);
  }
  CHECK_OK(MPI_File_close(&one));
  CHECK_OK(MPI_File_close(&two));
}

TEST(nonblocking_collective_beside_other_collectives) {
  // Between start and wait the program makes collective calls of its own on the communicator of the file.
  MPI_File file;
  if (!open_file(&file)) return;
  for (int round = 0; round < 10; ++round) {
    int value = 100 * round + check::rank, sum = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (check::rank % 2 == 0) CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &value, 1, MPI_INT, &request));
    MPI_Allreduce(&check::rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (check::rank % 2 == 1) CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &value, 1, MPI_INT, &request));
    CHECK_EQ(sum, check::size * (check::size - 1) / 2);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(blocking_collective_while_a_nonblocking_one_is_in_flight) {
  MPI_File file;
  if (!open_file(&file)) return;
  int a = 1000 + check::rank, b = 2000 + check::rank, back = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &a, 1, MPI_INT, &request));
  CHECK_OK(MPI_File_write_at_all(file, 4 * (check::size + check::rank), &b, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, a);
  CHECK_OK(MPI_File_read_at(file, 4 * (check::size + check::rank), &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, b);
  CHECK_OK(MPI_File_close(&file));
}

TEST(independent_calls_need_nobody_in_mpi) {
  // Rank 0 does everything that is not collective while the others are outside of MPI.
  MPI_File file;
  if (!open_file(&file)) return;
  const std::string signal = scratch("signal");
  if (check::rank == 0) {
    int values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, back[10] = {};
    MPI_Offset offset = -1;
    int flag = 0;
    MPI_Request request;
    CHECK_OK(MPI_File_write_at(file, 0, values, 10, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write(file, values, 10, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read(file, back, 10, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_get_position(file, &offset));
    CHECK_OK(MPI_File_get_size(file, &offset));
    CHECK_OK(MPI_File_get_atomicity(file, &flag));
    CHECK_OK(MPI_File_iwrite_at(file, 40, values, 10, MPI_INT, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iread_at(file, 40, back, 10, MPI_INT, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_BYTES(back, values, sizeof values);
    check::make_file(signal, {1});
  } else {
    wait_outside_of_mpi(signal);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_pointer_needs_nobody_in_mpi) {
  MPI_File file;
  if (!open_file(&file)) return;
  for (int turn = 0; turn < check::size; ++turn) {
    const std::string signal = scratch("signal" + std::to_string(turn));
    if (check::rank == turn) {
      MPI_Offset offset = -1;
      CHECK_OK(MPI_File_write_shared(file, &turn, 1, MPI_INT, MPI_STATUS_IGNORE));
      CHECK_OK(MPI_File_get_position_shared(file, &offset));
      CHECK_EQ(offset, 4 * (turn + 1));
      check::make_file(signal, {1});
    } else {
      wait_outside_of_mpi(signal);
    }
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_pointer_while_others_receive) {
  MPI_File file;
  if (!open_file(&file)) return;
  one_after_the_other([&] {
    for (int i = 0; i < 20; ++i) CHECK_OK(MPI_File_write_shared(file, &check::rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  });
  check::barrier();
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_position_shared(file, &offset));
  CHECK_EQ(offset, 4 * 20 * check::size);
  CHECK_OK(MPI_File_close(&file));
}

TEST(messages_to_itself_across_a_wait) {
  // The wait for a nonblocking collective must let messages of the program through.
  MPI_File file;
  if (!open_file(&file)) return;
  const int next = (check::rank + 1) % check::size, previous = (check::rank + check::size - 1) % check::size;
  std::vector<int> out(100000, check::rank), in(100000, -1);
  MPI_Request requests[3];
  MPI_Irecv(in.data(), 100000, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out.data(), 100000, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[1]);
  CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &check::rank, 1, MPI_INT, &requests[2]));
  CHECK_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
  CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CHECK_EQ(in[99999], previous);
  CHECK_OK(MPI_File_close(&file));
}

TEST(messages_go_on_while_a_rank_waits_in_any_collective_call) {
  // Rank 0 has sent something large to all others, and waits for them in a call of the file; they receive it before they make theirs (MPI 4.1 section
  // 3.5: who is inside of MPI lets his sends proceed).  Where the receiver fetches them by itself that shows little: see the run that forbids it.
  MPI_File file;
  if (!open_file(&file)) return;
  std::vector<int> large(200000, 7);
  const auto with_messages_under_way = [&](const std::string& what, const auto& body) {
    if (check::flag("--verbose") && check::rank == 0) std::fprintf(stderr, "  %s\n", what.c_str());
    std::vector<MPI_Request> sent;
    if (check::rank == 0)
      for (int to = 1; to < check::size; ++to)
        MPI_Isend(large.data(), static_cast<int>(large.size()), MPI_INT, to, 5, MPI_COMM_WORLD, &sent.emplace_back(MPI_REQUEST_NULL));
    else
      MPI_Recv(large.data(), static_cast<int>(large.size()), MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    body();
    MPI_Waitall(static_cast<int>(sent.size()), sent.data(), MPI_STATUSES_IGNORE);
  };
  int value = check::rank;
  for (const calls::Call& call : calls::all_calls())
    if (is_collective(call))
      with_messages_under_way(name_of(call, calls::Direction::write), [&] {
        CHECK_OK(transfer(call, calls::Direction::write, file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
      });
  with_messages_under_way("a blocking call behind a nonblocking one", [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &value, 1, MPI_INT, &request));
    CHECK_OK(MPI_File_write_at_all(file, 4 * (check::size + check::rank), &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  });
  with_messages_under_way("an ordered call behind a nonblocking one", [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_File_iwrite_at_all(file, 4 * check::rank, &value, 1, MPI_INT, &request));
    CHECK_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  });
  with_messages_under_way("sync", [&] { CHECK_OK(MPI_File_sync(file)); });
  with_messages_under_way("set_view", [&] { CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)); });
  with_messages_under_way("set_size", [&] { CHECK_OK(MPI_File_set_size(file, 100)); });
  with_messages_under_way("seek_shared", [&] { CHECK_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET)); });
  with_messages_under_way("set_atomicity", [&] { CHECK_OK(MPI_File_set_atomicity(file, 1)); });
  with_messages_under_way("a split call in atomic mode", [&] {
    CHECK_OK(MPI_File_write_at_all_begin(file, check::rank, &value, 1, MPI_INT));
    CHECK_OK(MPI_File_write_at_all_end(file, &value, MPI_STATUS_IGNORE));
  });
  with_messages_under_way("close", [&] { CHECK_OK(MPI_File_close(&file)); });
  with_messages_under_way("open", [&] { CHECK(open_file(&file)); });
  CHECK_OK(MPI_File_close(&file));
}

TEST(last_rank_comes_late_to_every_collective) {
  MPI_File file;
  if (!open_file(&file)) return;
  for (const calls::Call& call : calls::all_calls()) {
    if (!is_collective(call)) continue;
    int value = check::rank, mine = 0;
    // The late rank does independent work on the same file first.
    if (check::rank == check::size - 1)
      for (int i = 0; i < 20; ++i) CHECK_OK(MPI_File_write_at(file, 100000 + 4 * i, &i, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(transfer(call, calls::Direction::write, file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, 100000, &mine, 0, MPI_INT, MPI_STATUS_IGNORE));
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)

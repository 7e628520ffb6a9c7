// Data go straight between the program's memory and their place in the window or message; only what was joined with other members' and is scattered in the
// program's memory passes through a buffer of its own.
#include "strategy/member.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "access/cursor.h"
#include "access/within.h"
#include "strategy/copying.h"

namespace penstock::strategy {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

namespace {

/// What a member reads of a window at least, and a multiple of.
constexpr Offset kReadLeast = Offset{128} << 10;
constexpr Offset kReadUnit = 4096;

}  // namespace

Member::Member(Call& call, const Agreement& agreement, const Buffers& buffers)
    : call_(call), access_(call.access()), agreement_(agreement), buffers_(buffers), own_(call.own()), mine_(agreement.division.domains()) {
  if (!access_.write && !own_.empty()) own_.cut(agreement.file_bytes);
}

Status Member::prepare() {
  if (!access_.memory_contiguous && agreement_.whole.has_value())
    PENSTOCK_TRY(access_.kept.own.reserve(std::min(bytes(), agreement_.division.domains().window_bytes())));
  const int place = agreement_.division.place();
  if (!call_.direct())
    mine_.add(own_, 0);
  else if (place >= 0)
    mine_.add(own_, 0, place);
  return {};
}

void Member::follow() {
  if (access_.write)
    follow_writing();
  else
    follow_reading();
}

void Member::follow_writing() {
  for (int step = 0; buffers_.round(step).over == 0; ++step) {
    const Round round = buffers_.round(step);
    if (round.moves != 0) move(round.number, step);
    meet();
  }
}

void Member::follow_reading() {
  read_share(0);
  meet();
  Round before{};
  int step = 0;
  for (; buffers_.round(step).over == 0; ++step) {
    const Round round = buffers_.round(step);
    if (before.moves != 0) move(before.number, step - 1);
    read_share(step + 1);
    meet();
    before = round;
  }
  if (before.moves != 0) move(before.number, step - 1);
}

void Member::meet() {
  if (call_.alone()) return;
  const PhaseScope phase(access_.trace, Phase::kGather);
  (void)access_.team.meet({});
}

void Member::move(Offset round, int step) {
  const PhaseScope phase(access_.trace, call_.alone() ? Phase::kCopy : Phase::kGather);
  mine_.take(round, [&](const Agenda::Entry& part, Offset to) {
    const Offset first = agreement_.division.domains().window(round, part.aggregator).first;
    if (part.aggregator == agreement_.division.place())
      move_in_window(step, first, part.position, to);
    else
      move_in_staging(step, part.aggregator, first, part.position, to);
  });
}

/// Straight between this rank's memory and the window, which begins at `first`.
void Member::move_in_window(int step, Offset first, Offset from, Offset to) {
  access::Zip zip(access_.file, from, access_.memory, memory_position(from), to - from);
  copy_along(zip, buffers_.window(step), first, access_.buffer, access_.write);
}

/// Between this rank's memory and its place in the message for an aggregator, whose window begins at `first`.
void Member::move_in_staging(int step, int place, Offset first, Offset from, Offset to) {
  std::byte* const message = buffers_.staging(step) + buffers_.place(step, agreement_.own_claim, place);
  if (agreement_.whole.has_value())
    move_among_others(message, first, from, to);
  else
    move_packed(from, to - from, message);  // the claim is this rank's own; the message begins with its first byte in the window
}

/// Where this rank's claim was joined with those of other members, its data lie among theirs.
void Member::move_among_others(std::byte* message, Offset first, Offset from, Offset to) {
  const Walk& whole = *agreement_.whole;
  const Offset start = whole.position_at(first) - whole.claim.position;
  std::byte* contiguous = access_.buffer + memory_position(from);
  if (!access_.memory_contiguous) {
    contiguous = access_.kept.own.data();
    if (access_.write) move_packed(from, to - from, contiguous);
  }
  access::Within within(whole.claim, own_.claim, memory_position(from), memory_position(to));
  access::PackedStep step;
  Result<bool> more = within.next(step);
  for (; more.ok() && *more; more = within.next(step)) {
    std::byte* const packed = message + (step.whole_position - start);
    std::byte* const mine = contiguous + (step.member_position - memory_position(from));
    if (access_.write)
      access::copy_strided(packed, step.whole_stride, mine, step.length, step.length, step.count);
    else
      access::copy_strided(mine, step.length, packed, step.whole_stride, step.length, step.count);
  }
  call_.note(more.status());
  if (!access_.memory_contiguous && !access_.write) move_packed(from, to - from, contiguous);
}

/// Between this rank's memory and contiguous bytes.
void Member::move_packed(Offset position, Offset bytes, std::byte* contiguous) {
  const access::Tiling plain = access::bytes_at(0);
  access::Zip zip(plain, 0, access_.memory, memory_position(position), bytes);
  copy_along(zip, contiguous, 0, access_.buffer, access_.write);
}

void Member::read_share(int step) {
  const Round round = buffers_.round(step);
  const Offset bytes = round.read_end - round.read_first;
  if (round.over != 0 || bytes == 0) return;
  const Offset readers = std::clamp<Offset>(bytes / kReadLeast, 1, std::min(access_.team.size(), access_.readers));
  const Offset each = (bytes / readers + kReadUnit) / kReadUnit * kReadUnit;
  const Offset begin = std::min(each * access_.team.place(), bytes), end = std::min(begin + each, bytes);
  if (access_.team.place() >= readers || begin == end) return;
  const PhaseScope phase(access_.trace, Phase::kRead);
  const Offset first = round.read_first + begin;
  store::Transfer transfer{first, buffers_.window(step) + (first - round.window_first), static_cast<std::size_t>(end - begin), 0};
  if (call_.ok()) call_.note(access_.target.read(std::span(&transfer, 1)));
  access_.trace.count(Counter::kStoreReads);
  access_.trace.count(Counter::kStoreBytesRead, static_cast<std::int64_t>(transfer.done));
  std::memset(transfer.memory + transfer.done, 0, transfer.length - transfer.done);
}

}  // namespace penstock::strategy

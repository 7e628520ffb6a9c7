// A bit per byte costs an eighth of the data's traffic; it is exact whatever overlaps, and needs no list and no sorting.
#include "strategy/window.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>

namespace penstock::strategy {

namespace {

constexpr Offset kBits = 64;

std::size_t words_for(Offset bytes) { return static_cast<std::size_t>((bytes + kBits - 1) / kBits); }

/// Ones from bit `from` on, below bit `to`.  Requires 0 <= from < to <= 64.
std::uint64_t ones(Offset from, Offset to) { return (~std::uint64_t{0} >> (kBits - (to - from))) << from; }

}  // namespace

Status Room::reserve(Offset bytes) {
  if (bytes <= size_) return {};
  bytes_.reset();  // before the new one is made: never both
  size_ = 0;
  bytes_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (bytes_ == nullptr)
    return Status::failure(Code::kNoMemory, "no memory for " + std::to_string(bytes) + " bytes of a collective access; set cb_buffer_size lower");
  size_ = bytes;
  return {};
}

Status FileWindow::use(std::byte* memory, Offset bytes) {
  bytes_ = memory;
  return arrived_.reserve(static_cast<Offset>(words_for(bytes) * sizeof(std::uint64_t)));
}

void FileWindow::begin(Offset first) {
  first_ = first;
  touched_first_ = INT64_MAX;
  touched_end_ = first;
}

void FileWindow::touch(Offset first, Offset end) {
  touched_first_ = std::min(touched_first_, first);
  touched_end_ = std::max(touched_end_, end);
}

void FileWindow::clear_marks() {
  if (touched_first_ >= touched_end_) return;
  const std::size_t from = static_cast<std::size_t>((touched_first_ - first_) / kBits);
  std::fill(arrived() + from, arrived() + words_for(touched_end_ - first_), 0);
}

void FileWindow::mark(Offset offset, Offset length) {
  Offset from = offset - first_;
  const Offset end = from + length;
  std::uint64_t* word = arrived() + from / kBits;
  const Offset in_first = std::min(end, (from / kBits + 1) * kBits);
  *word++ |= ones(from % kBits, in_first - from / kBits * kBits);
  for (from = in_first; from + kBits <= end; from += kBits) *word++ = ~std::uint64_t{0};
  if (from < end) *word |= ones(0, end - from);
}

bool FileWindow::next_stretch(Offset from, Offset& first, Offset& end) const {
  if (from >= touched_end_) return false;
  const Offset length = touched_end_ - first_;
  const Offset words = static_cast<Offset>(words_for(length));
  const auto find = [&](Offset at, std::uint64_t unwanted) {  // the first bit from `at` on that differs from `unwanted`
    for (Offset word = at / kBits; word < words; ++word) {
      std::uint64_t bits = arrived()[word] ^ unwanted;
      if (word == at / kBits) bits &= ~std::uint64_t{0} << (at % kBits);
      if (bits != 0) return std::min(word * kBits + std::countr_zero(bits), length);
    }
    return length;
  };
  const Offset begin = find(from - first_, 0);
  if (begin >= length) return false;
  first = first_ + begin;
  end = first_ + find(begin, ~std::uint64_t{0});
  return true;
}

}  // namespace penstock::strategy

// Random descriptions of datatypes: seeded, and smaller when asked for a smaller size, so that a failure can be shrunk.
#pragma once

#include <random>

#include "oracle/datatype.h"

namespace penstock::oracle {

/// How random types may look.
struct Taste {
  Number size = 6;          ///< largest count, length and list
  int depth = 3;            ///< of constructors above the elements
  bool for_file = false;    ///< only increasing, non-overlapping types with room for the next copy: good filetypes
  bool typed = false;       ///< elements of several kinds
};

class RandomDatatype {
 public:
  RandomDatatype(std::uint64_t seed, Taste taste) : generator_(seed), taste_(taste) {}

  Number between(Number low, Number high) { return std::uniform_int_distribution<Number>(low, high)(generator_); }

  Datatype make() { return make(static_cast<int>(between(0, taste_.depth))); }

 private:
  Number largest() const { return std::max<Number>(taste_.size, 1); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  Datatype element() {
    static constexpr Number kSizes[] = {1, 2, 3, 4, 8, 16};
    return elementary(kSizes[between(0, 5)], taste_.typed ? static_cast<int>(between(0, 3)) : 0);
  }

  Datatype make(int depth) {
    if (depth == 0) return element();
    const Datatype part = make(depth - 1);
    Datatype whole = taste_.for_file ? increasing(part, depth) : any(part, depth);
    // What does not stay small is no use to a byte-by-byte oracle.
    return expand(whole).bytes.size() > 1500 ? part : whole;
  }

  Datatype array(const Datatype& part) {
    const std::size_t dimensions = static_cast<std::size_t>(between(1, 3));
    Numbers sizes, subsizes, starts;
    for (std::size_t i = 0; i < dimensions; ++i) {
      sizes.push_back(between(1, largest()));
      subsizes.push_back(between(1, sizes.back()));
      starts.push_back(between(0, sizes.back() - subsizes.back()));
    }
    if (chance(50)) return subarray(sizes, subsizes, starts, chance(50), part);
    std::vector<Spread> spreads;
    Numbers arguments, process_sizes;
    int processes = 1;
    for (std::size_t i = 0; i < dimensions; ++i) {
      spreads.push_back(static_cast<Spread>(between(0, 2)));
      process_sizes.push_back(spreads[i] == Spread::kNone ? 1 : between(1, 3));
      processes *= static_cast<int>(process_sizes[i]);
      const Number smallest = spreads[i] == Spread::kBlock ? (sizes[i] + process_sizes[i] - 1) / process_sizes[i] : 1;
      arguments.push_back(chance(40) ? -1 : between(smallest, smallest + 2));
    }
    return darray(processes, static_cast<int>(between(0, processes - 1)), sizes, spreads, arguments, process_sizes,
                  chance(50), part);
  }

  Datatype any(const Datatype& part, int depth) {
    const Number reach = 4 * largest();
    const std::size_t entries = static_cast<std::size_t>(between(0, largest()));
    Numbers lengths, displacements;
    for (std::size_t i = 0; i < entries; ++i) {
      lengths.push_back(between(0, 3));
      displacements.push_back(between(-reach, reach));
    }
    switch (between(0, 7)) {
      case 0: return contiguous(between(0, largest()), part);
      case 1: return hvector(between(0, largest()), between(0, 3), between(-reach, reach), part);
      case 2: return hindexed(lengths, displacements, part);
      case 3: return hindexed_block(between(0, 3), displacements, part);
      case 4: {
        std::vector<Datatype> parts;
        for (std::size_t i = 0; i < entries; ++i) parts.push_back(chance(50) ? part : make(static_cast<int>(between(0, depth - 1))));
        return structure(lengths, displacements, parts);
      }
      case 5: return resized(between(-reach, reach), between(-reach, 2 * reach), part);
      default: return array(part);
    }
  }

  /// Each part after the one before it, with gaps of any size including none.
  Datatype increasing(const Datatype& part, int depth) {
    const std::size_t entries = static_cast<std::size_t>(between(0, largest()));
    Number at = between(0, largest());
    Numbers lengths, displacements;
    std::vector<Datatype> parts;
    const bool mixed = chance(30);
    for (std::size_t i = 0; i < entries; ++i) {
      parts.push_back(mixed && chance(50) ? make(static_cast<int>(between(0, depth - 1))) : part);
      lengths.push_back(between(0, 3));
      displacements.push_back(at);
      at += lengths[i] * expand(parts[i]).extent() + (chance(30) ? 0 : between(0, largest()));
    }
    const Number extent = expand(part).extent();
    switch (between(0, 5)) {
      case 0: return contiguous(between(0, largest()), part);
      case 1: {
        const Number block_length = between(0, 3);
        return hvector(between(0, largest()), block_length, block_length * extent + between(0, largest()), part);
      }
      case 2: return mixed ? structure(lengths, displacements, parts) : hindexed(lengths, displacements, part);
      case 3: return resized(0, expand(part).upper_bound() + between(0, largest()), part);
      default: return array(part);
    }
  }

  std::mt19937_64 generator_;
  Taste taste_;
};

/// Tells of the smallest failing case.  `check(seed, size)` returns "" or what is wrong.
template <typename Check>
std::string smallest_failure(std::uint64_t seed, Number size, Check check) {
  std::string failure = check(seed, size);
  if (failure.empty()) return "";
  for (Number smaller = 1; smaller < size; ++smaller)
    if (std::string other = check(seed, smaller); !other.empty())
      return "seed " + std::to_string(seed) + ", size " + std::to_string(smaller) + ": " + other;
  return "seed " + std::to_string(seed) + ", size " + std::to_string(size) + ": " + failure;
}

}  // namespace penstock::oracle

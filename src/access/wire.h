// Wire: tilings as bytes, so that a rank can tell another what it accesses.  Pure.
//
// What is sent is the tree, not the pieces: its size is that of the description, whatever the layout stands for.
#pragma once

#include <span>
#include <vector>

#include "access/layout.h"

namespace penstock::access {

/// Appends `tiling` to `bytes`.  Kinds of elements are left out: the other side sees bytes.
/// Irregular blocks go in a byte or two each where gaps and lengths are small, and once where they come again; they may come out as loops of shorter lists.
/// Cost: O(description_size), and a table of up to 4 MiB for a long list.
void pack(const Tiling& tiling, std::vector<std::byte>& bytes);

/// What pack() wrote of a tiling with data, all of it.  Fails with kIntern (or kType, where something outgrows 64 bits) for anything else:
/// nothing in the bytes is trusted.
Result<Tiling> unpack(std::span<const std::byte> bytes);

}  // namespace penstock::access

// Parts of n-dimensional arrays (MPI 4.1 sections 5.1.3 and 5.1.4) in terms of nodes.  Knows no MPI handles.
#include "access/layout.h"
#include "access/node.h"

namespace penstock::access {

namespace {

Status bad(const char* constructor, std::size_t dimension, const std::string& what) {
  return Status::failure(Code::kType,
                         std::string(constructor) + ": in dimension " + std::to_string(dimension) + " " + what);
}

/// The dimension that varies fastest is taken first.
std::size_t dimension_at(std::size_t step, std::size_t dimensions, Order order) {
  return order == Order::kC ? dimensions - 1 - step : step;
}

/// A layout that grows by one dimension at a time: `node` is what is taken of the inner dimensions, `extent` all of them.
struct Grown {
  NodePtr node;
  Offset extent = 0;
};

Status grow_extent(const char* constructor, Offset size, Grown& grown) {
  if (!checked_multiply(grown.extent, size, grown.extent)) return too_large(constructor, "the extent of the whole array");
  return {};
}

/// `count` copies of what there is, from index `start` on, `every` indices apart.
Result<NodePtr> copies(const Grown& inner, Wide start, Offset count, Wide every) {
  if (count == 0 || inner.node->size == 0) return empty_node();
  const Wide offset = start * inner.extent;
  const Wide stride = count > 1 ? every * inner.extent : 0;  // a single copy may have a cycle beyond any measure
  if (!fits(offset) || !fits(stride)) return too_large("array", "an offset of its data");
  return make_loop(static_cast<Offset>(offset), count, static_cast<Offset>(stride), inner.node);
}

struct Share {
  Offset size = 0;       ///< of the dimension, over all processes
  Offset block = 0;      ///< indices in a block
  Offset processes = 1;  ///< in this dimension
  Offset process = 0;    ///< ours, from 0
};

/// The indices of one dimension that are ours: every `processes`-th block, the last of which may be cut.
Status take_share(const Share& share, Grown& grown) {
  const Wide first = static_cast<Wide>(share.process) * share.block;
  const Wide cycle = static_cast<Wide>(share.processes) * share.block;
  // Blocks j = 0, 1, ... start at first + j * cycle; whole ones end at or before the end of the dimension.
  const Wide room = static_cast<Wide>(share.size) - first - share.block;
  const Offset whole = room < 0 ? 0 : static_cast<Offset>(room / cycle + 1);
  const Wide rest_start = first + whole * cycle;
  const Offset rest = rest_start >= share.size ? 0 : static_cast<Offset>(share.size - rest_start);

  Result<NodePtr> block = copies(grown, 0, share.block > share.size ? 0 : share.block, 1);
  if (!block.ok()) return block.status();
  Result<NodePtr> whole_blocks = copies(Grown{*block, grown.extent}, first, whole, cycle);
  if (!whole_blocks.ok()) return whole_blocks.status();
  Result<NodePtr> rest_block = copies(grown, rest_start, rest, 1);
  if (!rest_block.ok()) return rest_block.status();
  Result<NodePtr> both = make_list({{0, *whole_blocks}, {0, *rest_block}});
  if (!both.ok()) return both.status();
  grown.node = std::move(*both);
  return {};
}

/// The block of the standard's definition: BLOCK and NONE are cyclic distributions with one block per process.
Result<Offset> block_of(std::size_t dimension, Offset size, Distribution distribution, Offset argument, Offset processes) {
  if (distribution == Distribution::kNone) {
    if (processes == 1) return std::max<Offset>(size, 1);
    return bad("darray", dimension,
               "there are " + std::to_string(processes) + " processes; without distribution there must be 1");
  }
  if (argument == kDefaultDistribution)
    return distribution == Distribution::kCyclic ? 1 : std::max<Offset>(size / processes + (size % processes != 0), 1);
  if (argument <= 0)
    return bad("darray", dimension,
               "the distribution argument is " + std::to_string(argument) + "; it must be positive or the default");
  if (distribution == Distribution::kBlock && static_cast<Wide>(argument) * processes < size)
    return bad("darray", dimension,
               "blocks of " + std::to_string(argument) + " on " + std::to_string(processes) +
                   " processes do not cover " + std::to_string(size) + "; use larger blocks or a cyclic distribution");
  return argument;
}

/// Coordinates of `rank` in the grid of processes, which is always row-major.
Result<std::vector<Offset>> coordinates_of(int process_count, int rank, std::span<const Offset> process_sizes) {
  Wide product = 1;
  for (std::size_t i = 0; i < process_sizes.size(); ++i) {
    if (process_sizes[i] < 1) return bad("darray", i, "the process grid has size " + std::to_string(process_sizes[i]) + "; it must be 1 or more");
    product *= process_sizes[i];
    if (!fits(product)) return too_large("darray", "the size of the process grid");
  }
  if (product != process_count || rank < 0 || rank >= process_count)
    return Status::failure(Code::kType, "darray: rank " + std::to_string(rank) + " of " + std::to_string(process_count) +
                                            " processes does not fit a process grid of " +
                                            std::to_string(static_cast<Offset>(product)) +
                                            "; the grid must have as many places as there are processes");
  std::vector<Offset> coordinates(process_sizes.size());
  Offset rest = rank;
  for (std::size_t i = process_sizes.size(); i-- > 0;) {
    coordinates[i] = rest % process_sizes[i];
    rest /= process_sizes[i];
  }
  return coordinates;
}

Status check_dimensions(const char* constructor, std::size_t dimensions, std::initializer_list<std::size_t> others) {
  bool same = dimensions > 0;
  for (std::size_t other : others) same = same && other == dimensions;
  if (same) return {};
  return Status::failure(Code::kType, std::string(constructor) +
                                          ": the arrays that describe it must have one entry per dimension, at least one");
}

}  // namespace

Result<Type> subarray(std::span<const Offset> sizes, std::span<const Offset> subsizes, std::span<const Offset> starts,
                      Order order, const Type& type) {
  PENSTOCK_TRY(check_dimensions("subarray", sizes.size(), {subsizes.size(), starts.size()}));
  Grown grown{type.node, type.extent};
  for (std::size_t step = 0; step < sizes.size(); ++step) {
    const std::size_t i = dimension_at(step, sizes.size(), order);
    if (subsizes[i] < 0 || starts[i] < 0 || static_cast<Wide>(starts[i]) + subsizes[i] > sizes[i])
      return bad("subarray", i, std::to_string(subsizes[i]) + " indices from " + std::to_string(starts[i]) +
                                    " on are not inside of " + std::to_string(sizes[i]));
    Result<NodePtr> node = copies(grown, starts[i], subsizes[i], 1);
    if (!node.ok()) return node.status();
    grown.node = std::move(*node);
    PENSTOCK_TRY(grow_extent("subarray", sizes[i], grown));
  }
  return Type{std::move(grown.node), 0, grown.extent, true};
}

Result<Type> darray(int process_count, int rank, std::span<const Offset> global_sizes,
                    std::span<const Distribution> distributions, std::span<const Offset> arguments,
                    std::span<const Offset> process_sizes, Order order, const Type& type) {
  PENSTOCK_TRY(check_dimensions("darray", global_sizes.size(),
                                {distributions.size(), arguments.size(), process_sizes.size()}));
  Result<std::vector<Offset>> coordinates = coordinates_of(process_count, rank, process_sizes);
  if (!coordinates.ok()) return coordinates.status();
  Grown grown{type.node, type.extent};
  for (std::size_t step = 0; step < global_sizes.size(); ++step) {
    const std::size_t i = dimension_at(step, global_sizes.size(), order);
    if (global_sizes[i] < 0) return bad("darray", i, "the size is " + std::to_string(global_sizes[i]) + "; it must be 0 or more");
    Result<Offset> block = block_of(i, global_sizes[i], distributions[i], arguments[i], process_sizes[i]);
    if (!block.ok()) return block.status();
    PENSTOCK_TRY(take_share({global_sizes[i], *block, process_sizes[i], (*coordinates)[i]}, grown));
    PENSTOCK_TRY(grow_extent("darray", global_sizes[i], grown));
  }
  return Type{std::move(grown.node), 0, grown.extent, true};
}

}  // namespace penstock::access

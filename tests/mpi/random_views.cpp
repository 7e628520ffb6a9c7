// Property test at the level of MPI: random datatype trees as views and as memory, random sequences of calls of every kind,
// compared byte by byte with a slow model that knows every data byte's place from this file's own description of the types.
//
//   random_views [--seed S] [--cases N] [--shared-out] [--only K] [--without external32,holes,eof,shared,negative,bounds,zero,nonblocking,mixed] [--verbose]
//
// Case K of seed S is always the same case, whatever ran before.  A failing case is tried again within smaller bounds and with
// fewer steps, and the smallest that still fails is printed.  --shared-out: N / ranks cases instead of N, so that many ranks take as long as few.
// ranks: 1 3
// run: --cases 120
// run: PENSTOCK_HINTS=penstock_strategy=two_phase;cb_nodes=1000;cb_buffer_size=4096 --cases 60
// run: PENSTOCK_HINTS=penstock_strategy=two_layer;cb_buffer_size=4096 --cases 60
// run: PENSTOCK_HINTS=penstock_strategy=two_layer;cb_buffer_size=4096;cb_nodes=2 PENSTOCK_RANKS_PER_NODE=2 --cases 40
// thorough: 1: --cases 6000 --seed 20241
// thorough: 2: --cases 3000 --seed 20242
// thorough: 3: --cases 1000 --seed 20243
// thorough: 3: PENSTOCK_HINTS=penstock_strategy=two_phase;cb_nodes=1000;cb_buffer_size=4096 --cases 1000 --seed 20244
// Every strategy on every number of ranks, on nodes of 1 to 4 ranks and on one: small buffers for many rounds, aggregators by number and by stripe.
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=independent PENSTOCK_RANKS_PER_NODE=2 --test random_cases --cases 100 --shared-out --seed 31
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=mapped PENSTOCK_RANKS_PER_NODE=3 --test random_cases --cases 100 --shared-out --seed 32
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=sieved;ind_rd_buffer_size=512;ind_wr_buffer_size=512 --test random_cases --cases 100 --shared-out --seed 33
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=sieved PENSTOCK_RANKS_PER_NODE=2 --multiple --test random_cases --cases 100 --shared-out --seed 34
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_phase;cb_nodes=1000;cb_buffer_size=4096 PENSTOCK_RANKS_PER_NODE=1 --test random_cases --cases 100 --shared-out --seed 35
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_phase;cb_nodes=2;cb_buffer_size=4096 --multiple --test random_cases --cases 100 --shared-out --seed 36
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_phase;cb_buffer_size=4096 PENSTOCK_LUSTRE_LAYOUT=1k:3 PENSTOCK_RANKS_PER_NODE=3 --test random_cases --cases 100 --shared-out --seed 37
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_layer;cb_buffer_size=4096 --test random_cases --cases 100 --shared-out --seed 38
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_layer;penstock_local_aggregators=2;cb_nodes=3;cb_buffer_size=4096 PENSTOCK_RANKS_PER_NODE=4 --multiple --test random_cases --cases 100 --shared-out --seed 39
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=penstock_strategy=two_layer;cb_buffer_size=4096 PENSTOCK_LUSTRE_LAYOUT=512:2 PENSTOCK_RANKS_PER_NODE=2 --test random_cases --cases 100 --shared-out --seed 40
// thorough: 1 2 3 4 5 6 7 8: PENSTOCK_HINTS=cb_buffer_size=4096 PENSTOCK_RANKS_PER_NODE=3 --multiple --test random_cases --cases 100 --shared-out --seed 41
// time limit: 300
#include "calls.h"

#include <sched.h>

#include <map>
#include <memory>
#include <random>

using calls::Call;
using calls::Direction;
using calls::Pointer;
using calls::Style;

namespace {

using Offset = std::int64_t;

// ---- options and chance ----

struct Bounds {
  int depth;       // of a type tree
  int count;       // of blocks, copies, elements of a dimension
  int data_bytes;  // of one type
  int steps;       // of one case
};
constexpr Bounds bounds_by_level[] = {{1, 2, 48, 2}, {2, 3, 160, 4}, {3, 4, 500, 8}};
constexpr int largest_level = 2;
constexpr Offset widest_span = 6000;

bool with_external32 = true;  // data representations other than native
bool with_holes = true;       // bytes that nobody wrote are expected to be zero
bool with_eof = true;         // reads may run past the end of the file
bool with_shared = true;      // shared file pointers
bool with_negative = true;    // negative lower bounds and strides
bool with_nonblocking = true; // calls that start and are waited for
bool with_zero = true;        // blocks and counts of length zero
bool with_mixed = true;       // each rank may call what it likes, also while a collective call is under way
bool with_bounds = true;      // types whose data does not start at their lower bound, or whose lower bound is not 0

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : engine_(seed) {}
  /// 0 .. n-1
  int pick(Offset n) { return n <= 1 ? 0 : static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  /// Once in n times.
  bool once_in(int n) { return pick(n) == 0; }
  template <typename T>
  void shuffle(std::vector<T>* values) {
    for (std::size_t i = values->size(); i > 1; --i) std::swap((*values)[i - 1], (*values)[static_cast<std::size_t>(pick(static_cast<Offset>(i)))]);
  }

 private:
  std::mt19937_64 engine_;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u + (a << 6));
  x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 32;
  return x;
}

// ---- types: what MPI is told, and what we know about it ----

int bounds_disagreements = 0;  // types that the MPI library refuses to make or sees other bounds of: not used

struct Type {
  MPI_Datatype handle = MPI_DATATYPE_NULL;
  bool owned = false;
  std::vector<Offset> bytes;  // where each data byte is, in the order of the typemap
  Offset lower = 0, extent = 0;
  bool marked = false;  // bounds set explicitly (resized, arrays): these count, not the data (MPI 4.1 section 5.1.7)
  Offset alignment = 1;  // the largest that any of its data may have
  std::string text;

  Type() = default;
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  ~Type() {
    if (owned && handle != MPI_DATATYPE_NULL) MPI_Type_free(&handle);
  }
  [[nodiscard]] Offset size() const { return static_cast<Offset>(bytes.size()); }
};
using TypePtr = std::shared_ptr<const Type>;

/// `count` copies of `type`, an extent apart, the first at `at`.
struct Copies {
  Offset at;
  Offset count;
  const Type* type;
};

void lay_out(const std::vector<Copies>& blocks, Type* result) {
  bool any = false, any_marked = false;
  Offset lower = 0, upper = 0;
  for (const Copies& block : blocks) {
    result->alignment = std::max(result->alignment, block.type->alignment);
    if (block.count > 0 && block.type->marked) any_marked = true;
  }
  for (const Copies& block : blocks)
    for (Offset i = 0; i < block.count; ++i) {
      const Offset base = block.at + i * block.type->extent;
      for (Offset byte : block.type->bytes) result->bytes.push_back(base + byte);
      if ((any_marked && !block.type->marked) || (!block.type->marked && block.type->bytes.empty())) continue;
      const Offset low = base + block.type->lower, high = low + block.type->extent;
      lower = any ? std::min(lower, low) : low;
      upper = any ? std::max(upper, high) : high;
      any = true;
    }
  result->lower = lower;
  result->extent = upper - lower;
  result->marked = any_marked;
}

/// `extent` is `exact` rounded up to some alignment.  Anything else that is larger has another reason, for example a member without data that counts
/// for the bounds of MPICH's and Open MPI's structs but not for the standard's, which our external32 follows.
bool rounds_up(Offset exact, Offset extent, Offset alignment) {
  for (Offset unit = 2; unit <= alignment; unit *= 2)
    if ((exact + unit - 1) / unit * unit == extent) return true;
  return false;
}

/// Commits, and takes the bounds that MPI gives where it may round them up (alignment); null when it sees them otherwise.
TypePtr finish(std::shared_ptr<Type> type) {
  if (type->handle == MPI_DATATYPE_NULL) {  // this MPI refuses to make it
    ++bounds_disagreements;
    return nullptr;
  }
  type->owned = true;
  MPI_Type_commit(&type->handle);
  MPI_Count lower = 0, extent = 0, size = 0;
  MPI_Type_get_extent_x(type->handle, &lower, &extent);
  MPI_Type_size_x(type->handle, &size);
  const bool rounded = !type->marked && rounds_up(type->extent, extent, type->alignment);
  if (size != type->size() || lower != type->lower || (extent != type->extent && !rounded)) {
    ++bounds_disagreements;
    if (check::flag("--verbose"))
      std::fprintf(stderr, "bounds of %s: ours %lld %lld, size %lld; of the MPI library %lld %lld, size %lld\n", type->text.c_str(),
                   static_cast<long long>(type->lower), static_cast<long long>(type->extent), static_cast<long long>(type->size()),
                   static_cast<long long>(lower), static_cast<long long>(extent), static_cast<long long>(size));
    return nullptr;
  }
  type->extent = extent;
  return type;
}

std::string list(const std::vector<int>& values) {
  std::string text = "[";
  for (int value : values) text += (text.size() > 1 ? " " : "") + std::to_string(value);
  return text + "]";
}

std::string list(const std::vector<MPI_Aint>& values) {
  std::string text = "[";
  for (MPI_Aint value : values) text += (text.size() > 1 ? " " : "") + std::to_string(value);
  return text + "]";
}

TypePtr elementary(MPI_Datatype handle, const std::string& name) {
  auto type = std::make_shared<Type>();
  type->handle = handle;
  MPI_Count size = 0;
  MPI_Type_size_x(handle, &size);
  for (Offset i = 0; i < size; ++i) type->bytes.push_back(i);
  type->extent = size;
  type->alignment = size;
  type->text = name;
  return type;
}

TypePtr contiguous(int count, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  MPI_Type_contiguous(count, of->handle, &type->handle);
  lay_out({{0, count, of.get()}}, type.get());
  type->text = "contiguous(" + std::to_string(count) + ", " + of->text + ")";
  return finish(type);
}

TypePtr vector(int count, int block, Offset stride, bool stride_in_bytes, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  if (stride_in_bytes)
    MPI_Type_create_hvector(count, block, static_cast<MPI_Aint>(stride), of->handle, &type->handle);
  else
    MPI_Type_vector(count, block, static_cast<int>(stride), of->handle, &type->handle);
  std::vector<Copies> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back({i * stride * (stride_in_bytes ? 1 : of->extent), block, of.get()});
  lay_out(blocks, type.get());
  type->text = std::string(stride_in_bytes ? "hvector(" : "vector(") + std::to_string(count) + ", " + std::to_string(block) + ", " +
               std::to_string(stride) + ", " + of->text + ")";
  return finish(type);
}

TypePtr indexed(const std::vector<int>& lengths, const std::vector<MPI_Aint>& places, bool in_bytes, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  const int count = static_cast<int>(lengths.size());
  const std::vector<int> in_extents(places.begin(), places.end());
  if (in_bytes)
    MPI_Type_create_hindexed(count, lengths.data(), places.data(), of->handle, &type->handle);
  else
    MPI_Type_indexed(count, lengths.data(), in_extents.data(), of->handle, &type->handle);
  std::vector<Copies> blocks;
  for (std::size_t i = 0; i < lengths.size(); ++i) blocks.push_back({places[i] * (in_bytes ? 1 : of->extent), lengths[i], of.get()});
  lay_out(blocks, type.get());
  type->text = std::string(in_bytes ? "hindexed(" : "indexed(") + list(lengths) + ", " + list(places) + ", " + of->text + ")";
  return finish(type);
}

TypePtr indexed_block(int length, const std::vector<MPI_Aint>& places, bool in_bytes, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  const int count = static_cast<int>(places.size());
  const std::vector<int> in_extents(places.begin(), places.end());
  if (in_bytes)
    MPI_Type_create_hindexed_block(count, length, places.data(), of->handle, &type->handle);
  else
    MPI_Type_create_indexed_block(count, length, in_extents.data(), of->handle, &type->handle);
  std::vector<Copies> blocks;
  for (MPI_Aint place : places) blocks.push_back({place * (in_bytes ? 1 : of->extent), length, of.get()});
  lay_out(blocks, type.get());
  type->text = std::string(in_bytes ? "hindexed_block(" : "indexed_block(") + std::to_string(length) + ", " + list(places) + ", " +
               of->text + ")";
  return finish(type);
}

TypePtr structure(const std::vector<int>& lengths, const std::vector<MPI_Aint>& places, const std::vector<TypePtr>& of) {
  auto type = std::make_shared<Type>();
  std::vector<MPI_Datatype> handles;
  std::vector<Copies> blocks;
  type->text = "struct(" + list(lengths) + ", " + list(places);
  for (std::size_t i = 0; i < of.size(); ++i) {
    handles.push_back(of[i]->handle);
    blocks.push_back({places[i], lengths[i], of[i].get()});
    type->text += ", " + of[i]->text;
  }
  type->text += ")";
  MPI_Type_create_struct(static_cast<int>(of.size()), lengths.data(), places.data(), handles.data(), &type->handle);
  lay_out(blocks, type.get());
  return finish(type);
}

TypePtr resized(Offset lower, Offset extent, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  MPI_Type_create_resized(of->handle, static_cast<MPI_Aint>(lower), static_cast<MPI_Aint>(extent), &type->handle);
  type->bytes = of->bytes;
  type->alignment = of->alignment;
  type->lower = lower;
  type->extent = extent;
  type->marked = true;
  type->text = "resized(" + std::to_string(lower) + ", " + std::to_string(extent) + ", " + of->text + ")";
  return finish(type);
}

TypePtr duplicate(const TypePtr& of) {
  auto type = std::make_shared<Type>();
  MPI_Type_dup(of->handle, &type->handle);
  type->bytes = of->bytes;
  type->alignment = of->alignment;
  type->lower = of->lower;
  type->extent = of->extent;
  type->marked = of->marked;
  type->text = "dup(" + of->text + ")";
  return finish(type);
}

/// The elements of an n-dimensional array for which `chosen[d][index]` holds in every dimension d, in storage order.
void lay_out_array(const std::vector<int>& sizes, const std::vector<std::vector<bool>>& chosen, int order, const TypePtr& of,
                   Type* result) {
  Offset elements = 1;
  for (int size : sizes) elements *= size;
  const std::size_t dimensions = sizes.size();
  for (Offset element = 0; element < elements; ++element) {
    Offset rest = element;
    bool in = true;
    for (std::size_t k = 0; k < dimensions; ++k) {
      // The last dimension varies fastest in C order, the first in Fortran order.
      const std::size_t d = order == MPI_ORDER_C ? dimensions - 1 - k : k;
      in = in && chosen[d][static_cast<std::size_t>(rest % sizes[d])];
      rest /= sizes[d];
    }
    if (!in) continue;
    for (Offset byte : of->bytes) result->bytes.push_back(element * of->extent + byte);
  }
  result->lower = 0;
  result->extent = elements * of->extent;
  result->marked = true;
  result->alignment = of->alignment;
}

TypePtr subarray(const std::vector<int>& sizes, const std::vector<int>& subsizes, const std::vector<int>& starts, int order,
                 const TypePtr& of) {
  auto type = std::make_shared<Type>();
  MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(), starts.data(), order, of->handle,
                           &type->handle);
  std::vector<std::vector<bool>> chosen;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    chosen.emplace_back(static_cast<std::size_t>(sizes[d]), false);
    for (int i = 0; i < subsizes[d]; ++i) chosen[d][static_cast<std::size_t>(starts[d] + i)] = true;
  }
  lay_out_array(sizes, chosen, order, of, type.get());
  type->text = "subarray(" + list(sizes) + ", " + list(subsizes) + ", " + list(starts) + (order == MPI_ORDER_C ? ", C, " : ", Fortran, ") +
               of->text + ")";
  return finish(type);
}

struct Distribution {
  std::vector<int> sizes, kinds, arguments, grid;
  int order = MPI_ORDER_C;
  int processes = 1;
};

TypePtr darray(const Distribution& how, int process, const TypePtr& of) {
  auto type = std::make_shared<Type>();
  MPI_Type_create_darray(how.processes, process, static_cast<int>(how.sizes.size()), how.sizes.data(), how.kinds.data(),
                         how.arguments.data(), how.grid.data(), how.order, of->handle, &type->handle);
  // Processes are numbered in row-major order of the grid, whatever the order of the array (MPI 4.1 section 5.1.4).
  std::vector<int> coordinates(how.sizes.size());
  int rest = process;
  for (std::size_t d = how.sizes.size(); d-- > 0;) coordinates[d] = rest % how.grid[d], rest /= how.grid[d];
  std::vector<std::vector<bool>> chosen;
  std::string kinds;
  for (std::size_t d = 0; d < how.sizes.size(); ++d) {
    const int size = how.sizes[d], grid = how.grid[d];
    const bool given = how.arguments[d] != MPI_DISTRIBUTE_DFLT_DARG;
    const int block = how.kinds[d] == MPI_DISTRIBUTE_BLOCK ? (given ? how.arguments[d] : (size + grid - 1) / grid)
                                                            : (given ? how.arguments[d] : 1);
    chosen.emplace_back(static_cast<std::size_t>(size), false);
    for (int i = 0; i < size; ++i)
      chosen[d][static_cast<std::size_t>(i)] = how.kinds[d] == MPI_DISTRIBUTE_NONE || i / block % grid == coordinates[d];
    kinds += how.kinds[d] == MPI_DISTRIBUTE_BLOCK ? " block" : how.kinds[d] == MPI_DISTRIBUTE_CYCLIC ? " cyclic" : " none";
  }
  lay_out_array(how.sizes, chosen, how.order, of, type.get());
  type->text = "darray(" + std::to_string(process) + " of " + std::to_string(how.processes) + ", " + list(how.sizes) + "," + kinds + ", " +
               list(how.arguments) + ", grid " + list(how.grid) + (how.order == MPI_ORDER_C ? ", C, " : ", Fortran, ") + of->text + ")";
  return finish(type);
}

// ---- random types ----

bool ascending(const Type& type) {
  for (std::size_t i = 1; i < type.bytes.size(); ++i)
    if (type.bytes[i] <= type.bytes[i - 1]) return false;
  return true;
}

bool distinct(std::vector<Offset> bytes) {
  std::sort(bytes.begin(), bytes.end());
  return std::adjacent_find(bytes.begin(), bytes.end()) == bytes.end();
}

Offset first_byte(const Type& type) { return type.bytes.empty() ? 0 : *std::min_element(type.bytes.begin(), type.bytes.end()); }
Offset last_byte(const Type& type) { return type.bytes.empty() ? 0 : *std::max_element(type.bytes.begin(), type.bytes.end()); }

class TypeMaker {
 public:
  /// `unit`: displacements in bytes are multiples of it.  `for_view`: only types that may be filetypes are made, in which data
  /// goes upwards without overlap.
  TypeMaker(Chance* chance, const Bounds& bounds, TypePtr leaf, Offset unit, bool for_view)
      : chance_(chance), bounds_(bounds), leaf_(std::move(leaf)), unit_(unit), for_view_(for_view) {}

  TypePtr make() { return make(bounds_.depth); }

  Distribution random_distribution(int processes) {
    Distribution how;
    how.processes = processes;
    how.order = chance_->once_in(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    const int dimensions = 1 + chance_->pick(2);
    int left = processes;
    for (int d = 0; d < dimensions; ++d) {
      int grid = left;
      if (d + 1 < dimensions) {
        std::vector<int> divisors;
        for (int n = 1; n <= left; ++n)
          if (left % n == 0) divisors.push_back(n);
        grid = divisors[static_cast<std::size_t>(chance_->pick(static_cast<Offset>(divisors.size())))];
      }
      left /= grid;
      const int size = grid * (1 + chance_->pick(3)) + chance_->pick(2);
      int kind = chance_->once_in(2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
      if (grid == 1 && chance_->once_in(2)) kind = MPI_DISTRIBUTE_NONE;
      int argument = MPI_DISTRIBUTE_DFLT_DARG;
      if (kind == MPI_DISTRIBUTE_BLOCK && chance_->once_in(3)) argument = (size + grid - 1) / grid + chance_->pick(2);
      if (kind == MPI_DISTRIBUTE_CYCLIC && chance_->once_in(2)) argument = 1 + chance_->pick(3);
      how.sizes.push_back(size), how.grid.push_back(grid), how.kinds.push_back(kind), how.arguments.push_back(argument);
    }
    return how;
  }

 private:
  TypePtr make(int depth) {
    if (depth == 0 || chance_->once_in(6)) return leaf_;
    const TypePtr inner = make(depth - 1);
    const TypePtr outer = wrap(inner, depth);
    const bool fits = outer && outer->size() <= bounds_.data_bytes && last_byte(*outer) - first_byte(*outer) < widest_span &&
                      std::abs(outer->extent) < widest_span && std::abs(outer->lower) < widest_span;
    if (!fits) return inner;
    if (!with_bounds && (outer->lower != 0 || first_byte(*outer) != 0)) return inner;
    return (for_view_ ? ascending(*outer) : distinct(outer->bytes)) ? outer : inner;
  }

  int count() { return 1 + chance_->pick(bounds_.count); }
  int count_or_none() { return with_zero ? chance_->pick(bounds_.count + 1) : count(); }
  Offset gap() { return chance_->pick(unit_ == 1 ? 9 : 3) * unit_; }
  bool backwards() { return !for_view_ && with_negative && chance_->once_in(3); }

  /// Places of blocks of these lengths, one behind the other with gaps, in units of `extent`-sized items or in bytes.
  std::vector<MPI_Aint> places(const std::vector<int>& lengths, Offset extent, bool in_bytes) {
    std::vector<MPI_Aint> result;
    Offset at = in_bytes ? gap() : chance_->pick(3);
    if (backwards()) at -= in_bytes ? 5 * unit_ : 3;
    for (int length : lengths) {
      result.push_back(static_cast<MPI_Aint>(at));
      at += in_bytes ? length * extent + gap() : length + chance_->pick(3);
    }
    return result;
  }

  /// In memory, blocks may come in any order.
  void maybe_shuffle(std::vector<int>* lengths, std::vector<MPI_Aint>* where) {
    if (for_view_ || !chance_->once_in(2)) return;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < lengths->size(); ++i) order.push_back(i);
    chance_->shuffle(&order);
    const std::vector<int> old_lengths = *lengths;
    const std::vector<MPI_Aint> old_places = *where;
    for (std::size_t i = 0; i < order.size(); ++i) (*lengths)[i] = old_lengths[order[i]], (*where)[i] = old_places[order[i]];
  }

  TypePtr wrap(const TypePtr& inner, int depth) {
    switch (chance_->pick(12)) {
      case 0: return contiguous(with_zero && chance_->once_in(8) ? 0 : count(), inner);
      case 1: return wrap_vector(inner, false);
      case 2: return wrap_vector(inner, true);
      case 3: return wrap_indexed(inner, false);
      case 4: return wrap_indexed(inner, true);
      case 5: return wrap_indexed_block(inner, false);
      case 6: return wrap_indexed_block(inner, true);
      case 7: return wrap_structure(inner, depth);
      case 8: return wrap_subarray(inner);
      case 9: return wrap_darray(inner);
      case 10: {
        const Offset below = with_negative ? gap() : 0;
        return resized(inner->lower - below, inner->extent + below + gap(), inner);
      }
      default: return duplicate(inner);
    }
  }

  TypePtr wrap_vector(const TypePtr& inner, bool in_bytes) {
    const int blocks = count(), length = count();
    const Offset stride = in_bytes ? length * inner->extent + gap() : length + chance_->pick(3);
    return vector(blocks, length, backwards() ? -stride : stride, in_bytes, inner);
  }

  TypePtr wrap_indexed(const TypePtr& inner, bool in_bytes) {
    std::vector<int> lengths;
    for (int i = count(); i > 0; --i) lengths.push_back(count_or_none());
    std::vector<MPI_Aint> where = places(lengths, inner->extent, in_bytes);
    maybe_shuffle(&lengths, &where);
    return indexed(lengths, where, in_bytes, inner);
  }

  TypePtr wrap_indexed_block(const TypePtr& inner, bool in_bytes) {
    std::vector<int> lengths(static_cast<std::size_t>(count()), count());
    std::vector<MPI_Aint> where = places(lengths, inner->extent, in_bytes);
    maybe_shuffle(&lengths, &where);
    return indexed_block(lengths[0], where, in_bytes, inner);
  }

  TypePtr wrap_structure(const TypePtr& inner, int depth) {
    std::vector<TypePtr> of = {inner};
    for (int i = chance_->pick(3); i > 0; --i) of.push_back(make(depth - 1));
    std::vector<int> lengths;
    std::vector<MPI_Aint> where;
    Offset at = gap();
    for (const TypePtr& type : of) {
      const int length = count_or_none();
      lengths.push_back(length);
      // The first data byte of a block comes behind the last of the block before; rounded up to the unit.
      const Offset place = type->bytes.empty() ? at : (at - first_byte(*type) + unit_ - 1) / unit_ * unit_;
      where.push_back(static_cast<MPI_Aint>(place));
      if (length > 0 && !type->bytes.empty()) at = place + (length - 1) * type->extent + last_byte(*type) + 1 + gap();
    }
    return structure(lengths, where, of);
  }

  TypePtr wrap_subarray(const TypePtr& inner) {
    if (inner->lower != 0) return nullptr;
    std::vector<int> sizes, subsizes, starts;
    for (int d = 1 + chance_->pick(3); d > 0; --d) {
      sizes.push_back(count());
      subsizes.push_back(1 + chance_->pick(sizes.back()));
      starts.push_back(chance_->pick(sizes.back() - subsizes.back() + 1));
    }
    return subarray(sizes, subsizes, starts, chance_->once_in(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner);
  }

  TypePtr wrap_darray(const TypePtr& inner) {
    if (inner->lower != 0) return nullptr;
    const Distribution how = random_distribution(1 + chance_->pick(4));
    return darray(how, chance_->pick(how.processes), inner);
  }

  Chance* chance_;
  Bounds bounds_;
  TypePtr leaf_;
  Offset unit_;
  bool for_view_;
};

// ---- cases ----

/// What everything in a case is made of.
struct Atom {
  TypePtr type;
  Offset unit;     // alignment of displacements
  int basic_size;  // bytes of the predefined type, 0 when there are several
};

Atom random_atom(Chance* chance) {
  switch (chance->pick(9)) {
    case 0:
    case 1:
    case 2: return {elementary(MPI_BYTE, "byte"), 1, 1};
    case 3: return {elementary(MPI_CHAR, "char"), 1, 1};
    case 4: return {elementary(MPI_SHORT, "short"), 2, 2};
    case 5: return {elementary(MPI_INT, "int"), 4, 4};
    case 6: return {elementary(MPI_DOUBLE, "double"), 8, 8};
    case 7: return {elementary(MPI_INT64_T, "int64"), 8, 8};
    default: {
      const TypePtr number = elementary(MPI_INT, "int"), letter = elementary(MPI_CHAR, "char");
      const TypePtr pair = structure({1, 1}, {0, 4}, {number, letter});
      if (pair) return {pair, 8, 0};
      return {number, 4, 4};
    }
  }
}

/// One rank's view, and the part of it (in etypes) that this rank may write.
struct View {
  Offset displacement = 0;
  TypePtr filetype;
  Offset first = 0, end = 0;
};

/// What one rank does in a step, or a part of it.
struct Access {
  Call call = {Pointer::at, Style::blocking};
  bool seek = false;     // put the pointer to `offset` first
  Offset offset = 0;     // in etypes
  TypePtr memory;
  int count = 0;
};

enum class StepKind { view, access, shared_turns, resize };

struct Step {
  StepKind kind = StepKind::access;
  int number = 0;  // written data depends on it
  // view
  std::vector<View> views;
  TypePtr etype;
  std::string datarep = "native";
  bool same_view = false;
  // access
  Direction direction = Direction::write;
  std::vector<std::vector<Access>> accesses;  // [rank][n]; collective ones are the n-th of all ranks
  // resize
  Offset size = 0;
};

struct Case {
  std::uint64_t seed = 0;
  Atom atom;
  Offset initial_size = 0;
  std::vector<Step> steps;
};

Offset etypes_in(const View& view, const Type& etype) { return view.filetype->size() / etype.size(); }

/// Byte offset in the file of data byte `position` of the view.
Offset place_of(const View& view, Offset position) {
  const Offset tile = view.filetype->size();
  return view.displacement + position / tile * view.filetype->extent + view.filetype->bytes[static_cast<std::size_t>(position % tile)];
}

class CaseMaker {
 public:
  CaseMaker(std::uint64_t seed, int number, int level) : chance_(mix(seed, static_cast<std::uint64_t>(number))), bounds_(bounds_by_level[level]) {
    result_.seed = mix(seed + 1, static_cast<std::uint64_t>(number));
  }

  Case make() {
    result_.atom = random_atom(&chance_);
    if (!chance_.once_in(3)) result_.initial_size = chance_.pick(3000);
    if (!with_eof) result_.initial_size = 300000;
    add_view();
    const int steps = 1 + chance_.pick(bounds_.steps);
    for (int i = 0; i < steps; ++i) {
      if (chance_.once_in(6)) add_view();
      if (with_eof && chance_.once_in(12)) add_resize();
      add_access();
    }
    return std::move(result_);
  }

 private:
  Step* add(StepKind kind) {
    result_.steps.emplace_back();
    Step* step = &result_.steps.back();
    step->kind = kind;
    step->number = static_cast<int>(result_.steps.size());
    return step;
  }

  TypePtr random_etype() {
    const TypePtr& atom = result_.atom.type;
    TypePtr etype;
    if (chance_.once_in(5)) etype = contiguous(2 + chance_.pick(2), atom);
    if (chance_.once_in(10)) etype = resized(0, atom->extent + result_.atom.unit * (1 + chance_.pick(2)), atom);
    return etype ? etype : atom;
  }

  /// A filetype of etypes: some data, nothing below 0, tiles that follow each other upwards.
  TypePtr random_filetype(const TypePtr& etype) {
    TypeMaker maker(&chance_, bounds_, etype, unit_, true);
    TypePtr type = maker.make();
    if (type->bytes.empty()) type = etype;
    if (type->bytes.front() < 0) {
      const Offset up = (-type->bytes.front() + unit_ - 1) / unit_ * unit_;
      const TypePtr moved = indexed({1}, {static_cast<MPI_Aint>(up)}, true, type);
      type = moved ? moved : etype;
    }
    if (type->bytes.back() - type->bytes.front() >= type->extent) type = widened(type, etype);
    return type;
  }

  TypePtr widened(const TypePtr& type, const TypePtr& etype) {
    const Offset span = type->bytes.back() - type->bytes.front() + 1;
    const TypePtr wide = resized(type->lower, (span + unit_ - 1) / unit_ * unit_ + unit_ * chance_.pick(3), type);
    return wide ? wide : etype;
  }

  void add_view() {
    Step* step = add(StepKind::view);
    step->etype = random_etype();
    unit_ = step->etype->size() == 1 && step->etype->extent == 1 ? 1 : step->etype->extent;
    if (with_external32 && result_.atom.basic_size > 0) {
      if (chance_.once_in(6)) step->datarep = "external32";
      if (chance_.once_in(12)) step->datarep = "internal";
    }
    const Offset base = unit_ * chance_.pick(20);
    step->views.resize(static_cast<std::size_t>(check::size));
    const int way = chance_.pick(4);
    if (way == 0)
      windows(step, base);
    else if (way == 1)
      interleaved(step, base);
    else if (way == 2)
      distributed(step, base);
    else
      shared(step, base);
    view_ = result_.steps.back();
  }

  Offset random_limit(const View& view, const Type& etype) {
    const Offset per_tile = etypes_in(view, etype);
    return per_tile * (1 + chance_.pick(3)) + chance_.pick(per_tile);
  }

  /// Every rank has a stretch of the file for itself.
  void windows(Step* step, Offset base) {
    for (View& view : step->views) {
      view.filetype = random_filetype(step->etype);
      view.end = random_limit(view, *step->etype);
      view.displacement = base;
      base = place_of(view, view.end * step->etype->size() - 1) + 1;
      base = (base + unit_ - 1) / unit_ * unit_ + unit_ * chance_.pick(4);
    }
  }

  /// Tiles of the ranks alternate.
  void interleaved(Step* step, Offset base) {
    Offset widest = 1;
    for (View& view : step->views) {
      view.filetype = random_filetype(step->etype);
      widest = std::max(widest, view.filetype->bytes.back() + 1);
    }
    widest = (widest + unit_ - 1) / unit_ * unit_;
    for (std::size_t r = 0; r < step->views.size(); ++r) {
      View& view = step->views[r];
      const TypePtr spread = resized(0, widest * check::size, view.filetype);
      if (!spread) return windows(step, base);
      view.filetype = spread;
      view.displacement = base + widest * static_cast<Offset>(r);
      view.end = random_limit(view, *step->etype);
    }
  }

  /// An array distributed over the ranks, as darray does it; tiles of the whole array follow each other.
  void distributed(Step* step, Offset base) {
    if (step->etype->lower != 0) return windows(step, base);
    TypeMaker maker(&chance_, bounds_, step->etype, unit_, true);
    const Distribution how = maker.random_distribution(check::size);
    for (std::size_t r = 0; r < step->views.size(); ++r) {
      View& view = step->views[r];
      view.filetype = darray(how, static_cast<int>(r), step->etype);
      if (!view.filetype || view.filetype->bytes.empty()) return windows(step, base);
      view.displacement = base;
      view.end = random_limit(view, *step->etype);
    }
  }

  /// All ranks have the same view, and each a part of its positions.
  void shared(Step* step, Offset base) {
    step->same_view = true;
    const TypePtr filetype = random_filetype(step->etype);
    Offset first = 0;
    for (View& view : step->views) {
      view.filetype = filetype;
      view.displacement = base;
      view.first = first;
      view.end = first + random_limit(view, *step->etype);
      first = view.end;
    }
  }

  void add_resize() {
    Step* step = add(StepKind::resize);
    step->size = chance_.pick(4000);
  }

  /// A memory type and a count that hold a whole number of etypes, at most `most` of them.
  Access random_access(Offset most) {
    Access access;
    const Atom& atom = result_.atom;
    const Offset atoms_per_etype = view_.etype->size() / atom.type->size();
    if (with_zero && chance_.once_in(8)) most = 0;
    for (int tries = 0; tries < 8; ++tries) {
      TypeMaker maker(&chance_, bounds_, atom.type, atom.unit, false);
      const TypePtr memory = chance_.once_in(3) ? atom.type : maker.make();
      const Offset atoms = memory->size() / atom.type->size();
      if (atoms == 0) {
        if (!chance_.once_in(4)) continue;
        access.memory = memory, access.count = chance_.pick(4);
        return access;
      }
      // Counts that make whole etypes.
      Offset step = 1;
      while (step * atoms % atoms_per_etype != 0) ++step;
      const Offset largest = most * atoms_per_etype / (step * atoms);
      if (most > 0 && largest == 0) continue;
      const int count = static_cast<int>(step * chance_.pick(std::min<Offset>(largest, 40 / step + 1) + 1));
      if (!copies_are_distinct(*memory, count)) continue;
      access.memory = memory, access.count = count;
      return access;
    }
    access.memory = atom.type;
    access.count = static_cast<int>(most * atoms_per_etype);
    return access;
  }

  static bool copies_are_distinct(const Type& memory, int count) {
    std::vector<Offset> all;
    for (int i = 0; i < count; ++i)
      for (Offset byte : memory.bytes) all.push_back(i * memory.extent + byte);
    return distinct(std::move(all));
  }

  Offset etypes_of(const Access& access) const { return access.memory->size() * access.count / view_.etype->size(); }

  void add_access() {
    Step* step = add(StepKind::access);
    step->direction = chance_.once_in(2) ? Direction::write : Direction::read;
    const bool may_share = view_.same_view && with_shared;
    const int way = chance_.pick(may_share ? 4 : 3);
    // What all ranks call alike, collectively or not; and where each may do as it likes, what comes before that.
    std::vector<Call> alike;
    const bool as_they_like = way == 2 && with_mixed;
    if (way == 3) {
      const Style style = chance_.once_in(2) ? (chance_.once_in(2) ? Style::collective : Style::split) : independent_style();
      const Call call = possible({Pointer::shared, style, is_large()});
      step->kind = is_collective(call) ? StepKind::access : StepKind::shared_turns;
      alike.assign(is_collective(call) ? 1 : 1 + static_cast<std::size_t>(chance_.pick(3)), call);
    } else if (way == 0 || (as_they_like && chance_.once_in(2))) {
      const Call call = possible({own_pointer(), collective_style(), is_large()});
      alike.assign(call.style == Style::nonblocking_collective ? 1 + static_cast<std::size_t>(chance_.pick(3)) : 1, call);
    } else if (!as_they_like) {
      alike.assign(1 + static_cast<std::size_t>(chance_.pick(3)), possible({own_pointer(), independent_style(), is_large()}));
    }
    for (int r = 0; r < check::size; ++r) {
      std::vector<Call> calls = alike;
      for (int i = as_they_like ? chance_.pick(4) : 0; i > 0; --i) calls.push_back(possible({own_pointer(), independent_style(), is_large()}));
      add_accesses(step, view_.views[static_cast<std::size_t>(r)], calls);
    }
  }

  /// Accesses of one step go upwards: several may be outstanding, and must not overlap.
  void add_accesses(Step* step, const View& view, const std::vector<Call>& calls) {
    std::vector<Access> mine;
    Offset next = view.first;
    for (const Call& call : calls) {
      const Offset left = view.end - next;
      Access access = call.pointer == Pointer::shared ? random_access(6) : random_access(left);
      const Offset moved = etypes_of(access);
      access.call = call;
      access.offset = next + chance_.pick(std::max<Offset>(left - moved, 0) + 1);
      if (with_eof && step->direction == Direction::read && chance_.once_in(6)) access.offset += chance_.pick(200);
      // Where the pointer is known only behind another access with it, the next one may be there.
      access.seek = mine.empty() || chance_.once_in(3) || mine.back().call.pointer != Pointer::individual;
      if (!access.seek && access.call.pointer == Pointer::individual) access.offset = mine.back().offset + etypes_of(mine.back());
      next = std::min(view.end, access.offset + moved);
      mine.push_back(access);
    }
    step->accesses.push_back(mine);
  }

  Pointer own_pointer() { return chance_.once_in(2) ? Pointer::at : Pointer::individual; }
  Style independent_style() { return chance_.once_in(2) ? Style::blocking : Style::nonblocking; }
  Style collective_style() {
    static const Style styles[] = {Style::collective, Style::nonblocking_collective, Style::split};
    return styles[chance_.pick(3)];
  }
  bool is_large() { return check::have_large_count() && chance_.once_in(4); }

  static Call possible(Call call) {
    if (!with_nonblocking && call.style == Style::nonblocking) call.style = Style::blocking;
    if (!with_nonblocking && call.style == Style::nonblocking_collective) call.style = Style::collective;
    return call;
  }

  Chance chance_;
  Bounds bounds_;
  Case result_;
  Offset unit_ = 1;
  Step view_;  // the last view step
};

// ---- the model: what the file must hold ----

class Model {
 public:
  void start(const check::Bytes& bytes) {
    bytes_ = bytes;
    known_.assign(bytes.size(), true);
  }
  [[nodiscard]] Offset size() const { return static_cast<Offset>(bytes_.size()); }
  void resize(Offset size) {
    bytes_.resize(static_cast<std::size_t>(size), 0);
    known_.resize(static_cast<std::size_t>(size), with_holes);
  }
  void write(Offset at, unsigned char byte) {
    if (at >= size()) resize(at + 1);
    bytes_[static_cast<std::size_t>(at)] = byte;
    known_[static_cast<std::size_t>(at)] = true;
  }
  [[nodiscard]] bool known(Offset at) const { return at < size() && known_[static_cast<std::size_t>(at)]; }
  [[nodiscard]] unsigned char at(Offset at) const { return bytes_[static_cast<std::size_t>(at)]; }

 private:
  check::Bytes bytes_;
  std::vector<bool> known_;
};

// ---- carrying a case out ----

/// Memory around `count` copies of a type, with room on both sides that must stay as it is.
class Memory {
 public:
  Memory(const Access& access, unsigned char fill) : access_(&access) {
    Offset low = 0, high = 0;
    for (int i = 0; i < access.count; ++i)
      for (Offset byte : access.memory->bytes) {
        low = std::min(low, i * access.memory->extent + byte);
        high = std::max(high, i * access.memory->extent + byte + 1);
      }
    constexpr Offset guard = 32;
    origin_ = (guard - low + 15) / 16 * 16;
    bytes_.assign(static_cast<std::size_t>(origin_ + high + guard), fill);
  }
  void* origin() { return bytes_.data() + origin_; }
  [[nodiscard]] Offset size() const { return access_->count * access_->memory->size(); }
  /// The k-th data byte.
  unsigned char& data(Offset k) { return bytes_[index(k)]; }
  [[nodiscard]] const check::Bytes& all() const { return bytes_; }
  [[nodiscard]] std::size_t index(Offset k) const {
    const Offset per_copy = access_->memory->size();
    return static_cast<std::size_t>(origin_ + k / per_copy * access_->memory->extent +
                                    access_->memory->bytes[static_cast<std::size_t>(k % per_copy)]);
  }

 private:
  const Access* access_;
  Offset origin_ = 0;
  check::Bytes bytes_;
};

unsigned char written_byte(std::uint64_t seed, int step, int rank, int access, Offset k) {
  return static_cast<unsigned char>(mix(seed + static_cast<std::uint64_t>(step) * 1000003u + static_cast<std::uint64_t>(rank) * 7919u +
                                            static_cast<std::uint64_t>(access) * 104729u,
                                        static_cast<std::uint64_t>(k)));
}

// Where ranks are many more than cores, blocking calls of MPI that never sleep would take most of the time of this test.
void wait_patiently(MPI_Request request) {
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

void meet() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  wait_patiently(request);
}

bool all_ranks(bool mine) {
  int one = mine ? 1 : 0, all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
  wait_patiently(request);
  return all == 1;
}

class Runner {
 public:
  Runner(const Case& what, bool quiet) : case_(what), quiet_(quiet) {}

  /// Runs the steps that are not left out; true when all ranks found everything as it should be.  Collective.
  bool run(const std::vector<bool>& left_out) {
    const std::string name = check::scratch();
    check::Bytes initial(static_cast<std::size_t>(case_.initial_size));
    for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = written_byte(case_.seed, 0, 0, 0, static_cast<Offset>(i));
    if (check::rank == 0) check::make_file(name, initial);
    meet();
    model_.start(initial);
    if (MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_RDWR, MPI_INFO_NULL, &file_) != MPI_SUCCESS) {
      fail("open failed");
      return all_ranks(false);
    }
    ok("set_atomicity", MPI_File_set_atomicity(file_, case_.seed % 16 == 0));
    for (std::size_t i = 0; i < case_.steps.size(); ++i) {
      if (left_out[i]) continue;
      step_ = &case_.steps[i];
      carry_out();
    }
    ok("close", MPI_File_close(&file_));
    meet();
    if (check::rank == 0) compare_file(name);
    const bool passed = all_ranks(!failed_);
    meet();
    return passed;
  }

 private:
  void fail(const std::string& what) {
    failed_ = true;
    if (quiet_ || ++shown_ > 6) return;
    std::fprintf(stderr, "random_views: rank %d of %d: step %d: %s\n", check::rank, check::size, step_ ? step_->number : 0, what.c_str());
  }

  void ok(const std::string& what, int code) {
    if (code != MPI_SUCCESS) fail(what + ": expected MPI_SUCCESS, got " + check::describe(code));
  }

  void carry_out() {
    if (step_->kind == StepKind::view) return set_view();
    if (step_->kind == StepKind::resize) return resize();
    // Between phases of writing and reading, everybody sees everything (MPI 4.1 section 14.6.1).
    if (direction_ != step_->direction) sync();
    direction_ = step_->direction;
    if (step_->kind == StepKind::shared_turns)
      take_turns();
    else if (is_shared(*step_))
      ordered();
    else
      access_alone();
  }

  static bool is_shared(const Step& step) { return !step.accesses[0].empty() && step.accesses[0][0].call.pointer == Pointer::shared; }

  void sync() {
    ok("sync", MPI_File_sync(file_));
    meet();
    ok("sync", MPI_File_sync(file_));
  }

  void set_view() {
    sync();
    view_ = step_;
    const View& mine = view_->views[static_cast<std::size_t>(check::rank)];
    ok("set_view", MPI_File_set_view(file_, mine.displacement, view_->etype->handle, mine.filetype->handle, view_->datarep.c_str(), MPI_INFO_NULL));
    pointers_.assign(static_cast<std::size_t>(check::size), 0);
    shared_pointer_ = 0;
    shared_certain_ = true;
    // Byte offsets of some etypes.
    for (Offset etype : {Offset(0), mine.end - 1, mine.end + 3}) {
      MPI_Offset offset = -1;
      ok("get_byte_offset", MPI_File_get_byte_offset(file_, etype, &offset));
      const Offset place = place_of(mine, etype * view_->etype->size()) - view_->etype->bytes.front();
      if (offset != place) fail("get_byte_offset of etype " + std::to_string(etype) + ": expected " + std::to_string(place) + ", got " + std::to_string(offset));
    }
  }

  void resize() {
    sync();
    ok("set_size", MPI_File_set_size(file_, step_->size));
    model_.resize(step_->size);
    sync();
    MPI_Offset size = -1;
    ok("get_size", MPI_File_get_size(file_, &size));
    if (size != model_.size()) fail("get_size: expected " + std::to_string(model_.size()) + ", got " + std::to_string(size));
    meet();  // or a neighbour's next write is seen here already
  }

  Offset etypes_of(const Access& access) const { return access.memory->size() * access.count / view_->etype->size(); }

  /// Data bytes of external32 are those of each predefined item in opposite order.
  Offset in_file_order(Offset k) const {
    if (view_->datarep != "external32") return k;
    const Offset size = case_.atom.basic_size;
    return k / size * size + size - 1 - k % size;
  }

  /// The model's side of a write by `rank` at etype `offset`.
  void model_write(int rank, int number, const Access& access, Offset offset) {
    const View& view = view_->views[static_cast<std::size_t>(rank)];
    const Offset first = offset * view_->etype->size(), bytes = access.count * access.memory->size();
    for (Offset k = 0; k < bytes; ++k)
      model_.write(place_of(view, first + k), written_byte(case_.seed, step_->number, rank, number, in_file_order(k)));
  }

  /// How many data bytes a read at etype `offset` gets before the file ends.
  Offset readable(const View& view, Offset offset, Offset bytes) const {
    const Offset first = offset * view_->etype->size();
    Offset n = 0;
    while (n < bytes && place_of(view, first + n) < model_.size()) ++n;
    return n;
  }

  void check_read(Memory* memory, const Access& access, Offset offset, const MPI_Status& status) {
    const View& view = view_->views[static_cast<std::size_t>(check::rank)];
    const Offset bytes = memory->size(), got = check::bytes_in(status), whole = readable(view, offset, bytes);
    // Where the file ends within an item, some report its bytes and some do not.
    const Offset item = std::max(case_.atom.basic_size, 1), lowest = case_.atom.basic_size == 0 ? whole - whole % case_.atom.type->size() : whole - whole % item;
    if (got != whole && (got > whole || got < lowest))
      fail(name_of(access.call, Direction::read) + " at etype " + std::to_string(offset) + ": expected " + std::to_string(whole) + " of " +
           std::to_string(bytes) + " bytes, got " + std::to_string(got) + " (the file has " + std::to_string(model_.size()) + ")");
    const Offset first = offset * view_->etype->size();
    for (Offset k = 0; k < lowest; ++k) {
      const Offset place = place_of(view, first + in_file_order(k));
      if (!model_.known(place) || memory->data(k) == model_.at(place)) continue;
      fail(name_of(access.call, Direction::read) + " at etype " + std::to_string(offset) + ", data byte " + std::to_string(k) + " of " +
           std::to_string(bytes) + ", at " + std::to_string(place) + " in the file: expected " + std::to_string(model_.at(place)) + ", got " +
           std::to_string(memory->data(k)));
      break;
    }
    check_surroundings(*memory, access, 0x5A);
  }

  void check_surroundings(const Memory& memory, const Access& access, unsigned char fill) {
    std::vector<bool> data(memory.all().size(), false);
    for (Offset k = 0; k < memory.size(); ++k) data[memory.index(k)] = true;
    for (std::size_t i = 0; i < data.size(); ++i)
      if (!data[i] && memory.all()[i] != fill) {
        fail(name_of(access.call, step_->direction) + ": memory outside of " + access.memory->text + " was changed");
        return;
      }
  }

  void fill(Memory* memory, int number) {
    for (Offset k = 0; k < memory->size(); ++k) memory->data(k) = written_byte(case_.seed, step_->number, check::rank, number, k);
  }

  void check_written(const Memory& memory, const Access& access, const check::Bytes& before, const MPI_Status& status) {
    if (check::bytes_in(status) != memory.size())
      fail(name_of(access.call, Direction::write) + ": expected a status of " + std::to_string(memory.size()) + " bytes, got " +
           std::to_string(check::bytes_in(status)));
    if (memory.all() != before) fail(name_of(access.call, Direction::write) + " changed the memory it wrote from");
  }

  /// Calls of this rank by offset or own pointer; the model follows all ranks.
  void access_alone() {
    const bool writing = step_->direction == Direction::write;
    std::vector<Offset> my_offsets;
    for (int r = 0; r < check::size; ++r)
      for (std::size_t i = 0; i < step_->accesses[static_cast<std::size_t>(r)].size(); ++i) {
        const Access& access = step_->accesses[static_cast<std::size_t>(r)][i];
        const bool by_pointer = access.call.pointer == Pointer::individual;
        const Offset offset = !by_pointer || access.seek ? access.offset : pointers_[static_cast<std::size_t>(r)];
        if (r == check::rank) my_offsets.push_back(offset);
        if (by_pointer) pointers_[static_cast<std::size_t>(r)] = offset + etypes_of(access);
        if (writing) pending_.push_back({r, static_cast<int>(i), offset});
      }
    const std::vector<Access>& mine = step_->accesses[static_cast<std::size_t>(check::rank)];
    std::vector<std::unique_ptr<Memory>> memories;
    std::vector<check::Bytes> before;
    std::vector<MPI_Status> statuses(mine.size());
    std::vector<MPI_Request> requests(mine.size(), MPI_REQUEST_NULL);
    bool certain = true;  // after a short read, where the pointer stands is left to the implementation
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Call& call = mine[i].call;
      memories.push_back(std::make_unique<Memory>(mine[i], writing ? 0x33 : 0x5A));
      if (writing) fill(memories[i].get(), static_cast<int>(i));
      before.push_back(memories[i]->all());
      if (call.pointer == Pointer::individual && (mine[i].seek || !certain)) ok("seek", MPI_File_seek(file_, my_offsets[i], MPI_SEEK_SET));
      void* origin = memories[i]->origin();
      const MPI_Datatype type = mine[i].memory->handle;
      // What can be under way stays so while the rest is called.
      if (call.style == Style::nonblocking || call.style == Style::nonblocking_collective)
        ok(name_of(call, step_->direction), start(call, step_->direction, file_, my_offsets[i], origin, mine[i].count, type, &requests[i]));
      else if (call.style == Style::split)
        ok(name_of(call, step_->direction), split_begin(call, step_->direction, file_, my_offsets[i], origin, mine[i].count, type));
      else
        ok(name_of(call, step_->direction), transfer(call, step_->direction, file_, my_offsets[i], origin, mine[i].count, type, &statuses[i]));
      if (!writing) certain = false;
    }
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (mine[i].call.style == Style::split) ok(name_of(mine[i].call, step_->direction), split_end(mine[i].call, step_->direction, file_, memories[i]->origin(), &statuses[i]));
    wait_for(requests, statuses);
    for (const Pending& pending : pending_)
      model_write(pending.rank, pending.number, step_->accesses[static_cast<std::size_t>(pending.rank)][static_cast<std::size_t>(pending.number)], pending.offset);
    pending_.clear();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (writing)
        check_written(*memories[i], mine[i], before[i], statuses[i]);
      else
        check_read(memories[i].get(), mine[i], my_offsets[i], statuses[i]);
    }
    const bool pointer_used = std::any_of(mine.begin(), mine.end(), [](const Access& access) { return access.call.pointer == Pointer::individual; });
    if (writing && pointer_used) check_position(pointers_[static_cast<std::size_t>(check::rank)]);
  }

  /// For those that are under way, in one of the ways and orders that there are; each rank chooses its own.
  void wait_for(std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses) {
    const int count = static_cast<int>(requests.size());
    std::vector<MPI_Status> found(requests.size());
    switch ((step_->number + check::rank) % 4) {
      case 0:
        for (int i = count; i-- > 0;)
          if (requests[static_cast<std::size_t>(i)] != MPI_REQUEST_NULL)
            ok("wait", MPI_Wait(&requests[static_cast<std::size_t>(i)], &statuses[static_cast<std::size_t>(i)]));
        return;
      case 1:
        for (int which = 0; which != MPI_UNDEFINED;) {
          MPI_Status status;
          ok("waitany", MPI_Waitany(count, requests.data(), &which, &status));
          if (which != MPI_UNDEFINED) statuses[static_cast<std::size_t>(which)] = status;
        }
        return;
      case 2:
        for (int left = count; left > 0;) {
          int done = 0;
          MPI_Status status;
          const auto last = static_cast<std::size_t>(left - 1);
          const bool any = requests[last] != MPI_REQUEST_NULL;
          ok("test", MPI_Test(&requests[last], &done, &status));
          if (done != 0 && any) statuses[last] = status;
          if (done != 0) --left;
        }
        return;
      default:
        for (std::size_t i = 0; i < requests.size(); ++i) found[i] = statuses[i];
        std::vector<bool> under_way;
        for (MPI_Request request : requests) under_way.push_back(request != MPI_REQUEST_NULL);
        ok("waitall", MPI_Waitall(count, requests.data(), found.data()));
        for (std::size_t i = 0; i < requests.size(); ++i)
          if (under_way[i]) statuses[i] = found[i];
    }
  }

  void check_position(Offset expected) {
    MPI_Offset position = -1;
    ok("get_position", MPI_File_get_position(file_, &position));
    if (position != expected) fail("position after writing: expected " + std::to_string(expected) + ", got " + std::to_string(position));
  }

  /// The shared pointer to a known place; collective.
  void seek_shared(Offset offset) {
    meet();
    ok("seek_shared", MPI_File_seek_shared(file_, offset, MPI_SEEK_SET));
    shared_pointer_ = offset;
    meet();
  }

  void check_shared_position(Offset expected) {
    meet();
    MPI_Offset position = -1;
    ok("get_position_shared", MPI_File_get_position_shared(file_, &position));
    if (position != expected) fail("shared position after writing: expected " + std::to_string(expected) + ", got " + std::to_string(position));
    meet();
  }

  void one_shared_call(const Access& access, int number, Offset offset) {
    Memory memory(access, step_->direction == Direction::write ? 0x33 : 0x5A);
    if (step_->direction == Direction::write) fill(&memory, number);
    const check::Bytes before = memory.all();
    MPI_Status status;
    ok(name_of(access.call, step_->direction), transfer(access.call, step_->direction, file_, 0, memory.origin(), access.count, access.memory->handle, &status));
    if (step_->direction == Direction::write)
      check_written(memory, access, before, status);
    else
      check_read(&memory, access, offset, status);
  }

  /// Ordered calls: ranks one behind the other from where the pointer is.
  void ordered() {
    if (step_->direction == Direction::read || !shared_certain_) seek_shared(step_->accesses[0][0].offset);
    Offset next = shared_pointer_, mine = 0;
    for (int r = 0; r < check::size; ++r) {
      const Access& access = step_->accesses[static_cast<std::size_t>(r)][0];
      if (r == check::rank) mine = next;
      if (step_->direction == Direction::write) pending_.push_back({r, 0, next});
      next += etypes_of(access);
    }
    one_shared_call(step_->accesses[static_cast<std::size_t>(check::rank)][0], 0, mine);
    finish_shared(next);
  }

  /// Shared calls that are not ordered, one rank after the other.
  void take_turns() {
    if (step_->direction == Direction::read || !shared_certain_) seek_shared(step_->accesses[0][0].offset);
    Offset next = shared_pointer_;
    const std::size_t accesses = step_->accesses[0].size();
    for (int r = 0; r < check::size; ++r)
      for (std::size_t i = 0; i < accesses; ++i) {
        const Access& access = step_->accesses[static_cast<std::size_t>(r)][i];
        if (r == check::rank) one_shared_call(access, static_cast<int>(i), next);
        meet();
        if (step_->direction == Direction::write) pending_.push_back({r, static_cast<int>(i), next});
        next += etypes_of(access);
        // A short read may leave the pointer anywhere: put it where the next call is expected.
        if (step_->direction == Direction::read) seek_shared(next);
      }
    finish_shared(next);
  }

  void finish_shared(Offset next) {
    meet();
    for (const Pending& pending : pending_)
      model_write(pending.rank, pending.number, step_->accesses[static_cast<std::size_t>(pending.rank)][static_cast<std::size_t>(pending.number)], pending.offset);
    pending_.clear();
    shared_certain_ = step_->direction == Direction::write;
    shared_pointer_ = next;
    if (shared_certain_) check_shared_position(next);
    // What shared calls wrote lies in other ranks' parts, too.
    sync();
  }

  void compare_file(const std::string& name) {
    step_ = nullptr;
    const check::Bytes got = check::contents(name);
    if (static_cast<Offset>(got.size()) != model_.size()) {
      fail("size of the file: expected " + std::to_string(model_.size()) + ", got " + std::to_string(got.size()));
      return;
    }
    for (Offset i = 0; i < model_.size(); ++i) {
      if (!model_.known(i) || got[static_cast<std::size_t>(i)] == model_.at(i)) continue;
      fail("byte " + std::to_string(i) + " of the file: expected " + std::to_string(model_.at(i)) + ", got " + std::to_string(got[static_cast<std::size_t>(i)]));
      return;
    }
  }

  struct Pending {
    int rank, number;
    Offset offset;
  };

  const Case& case_;
  bool quiet_;
  bool failed_ = false;
  int shown_ = 0;
  Model model_;
  MPI_File file_ = MPI_FILE_NULL;
  const Step* step_ = nullptr;
  const Step* view_ = nullptr;
  Direction direction_ = Direction::read;
  std::vector<Offset> pointers_;
  Offset shared_pointer_ = 0;
  bool shared_certain_ = true;
  std::vector<Pending> pending_;
};

// ---- showing, shrinking, running ----

void print_case(const Case& what, const std::vector<bool>& left_out) {
  if (check::rank != 0) return;
  std::fprintf(stderr, "  atom %s, file of %lld bytes%s\n", what.atom.type->text.c_str(), static_cast<long long>(what.initial_size),
               what.seed % 16 == 0 ? ", atomic mode" : "");
  for (std::size_t i = 0; i < what.steps.size(); ++i) {
    if (left_out[i]) continue;
    const Step& step = what.steps[i];
    if (step.kind == StepKind::view) {
      std::fprintf(stderr, "  step %d: set_view etype %s, %s\n", step.number, step.etype->text.c_str(), step.datarep.c_str());
      for (std::size_t r = 0; r < step.views.size(); ++r)
        std::fprintf(stderr, "    rank %zu: displacement %lld, filetype %s\n", r, static_cast<long long>(step.views[r].displacement),
                     step.views[r].filetype->text.c_str());
    } else if (step.kind == StepKind::resize) {
      std::fprintf(stderr, "  step %d: set_size %lld\n", step.number, static_cast<long long>(step.size));
    } else {
      std::fprintf(stderr, "  step %d: %s\n", step.number, step.direction == Direction::write ? "write" : "read");
      for (std::size_t r = 0; r < step.accesses.size(); ++r)
        for (const Access& access : step.accesses[r])
          std::fprintf(stderr, "    rank %zu: %s %setype %lld, %d of %s\n", r, name_of(access.call, step.direction).c_str(),
                       access.seek ? "" : "(behind) ", static_cast<long long>(access.offset), access.count, access.memory->text.c_str());
    }
  }
}

/// Leaves out steps as long as the rest still fails.  The first view stays.  Collective.
std::vector<bool> shrink(const Case& what) {
  std::vector<bool> left_out(what.steps.size(), false);
  for (std::size_t i = what.steps.size(); i-- > 1;) {
    left_out[i] = true;
    if (Runner(what, true).run(left_out)) left_out[i] = false;
  }
  return left_out;
}

volatile int running_case = -1;

/// A crash must say which case it was.
void tell_case(int number) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "random_views: signal %d in case %d\n", number, running_case);
  if (length > 0 && write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(3);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void report_failure(std::uint64_t seed, int number) {
  for (int level = 0; level <= largest_level; ++level) {
    const Case smaller = CaseMaker(seed, number, level).make();
    if (Runner(smaller, true).run(std::vector<bool>(smaller.steps.size(), false))) continue;
    const std::vector<bool> left_out = shrink(smaller);
    if (check::rank == 0)
      std::fprintf(stderr, "random_views: --seed %llu --only %d fails; the smallest form (level %d):\n", static_cast<unsigned long long>(seed),
                   number, level);
    print_case(smaller, left_out);
    Runner(smaller, false).run(left_out);
    return;
  }
  if (check::rank == 0)
    std::fprintf(stderr, "random_views: --seed %llu --only %d failed once, not when it was tried again\n", static_cast<unsigned long long>(seed), number);
}

void read_options() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // datatypes that cannot be made are no reason to die
  const std::string without = "," + check::option("--without", "") + ",";
  const auto has = [&](const char* word) { return without.find(std::string(",") + word + ",") != std::string::npos; };
  with_external32 = !has("external32");
  with_holes = !has("holes");
  with_eof = !has("eof");
  with_shared = !has("shared");
  with_negative = !has("negative");
  with_bounds = !has("bounds");
  with_zero = !has("zero");
  with_nonblocking = !has("nonblocking");
  with_mixed = !has("mixed");
}

}  // namespace

TEST(types_are_what_we_say) {
  // The descriptions that the model relies on, compared with what MPI_Pack takes from memory: no files here.
  // Some MPI libraries pack some types wrongly, so a few that differ are told and no failure; were a description wrong, many
  // would be.
  read_options();
  const std::uint64_t seed = std::strtoull(check::option("--seed", "20240").c_str(), nullptr, 10);
  int differing = 0;
  std::string example;
  constexpr int types = 2000;
  for (int number = 0; number < types; ++number) {
    Chance chance(mix(seed + 2, static_cast<std::uint64_t>(number)));
    const Atom atom = random_atom(&chance);
    const TypePtr type = TypeMaker(&chance, bounds_by_level[largest_level], atom.type, atom.unit, chance.once_in(2)).make();
    Access access;
    access.memory = type, access.count = chance.pick(3);
    Memory memory(access, 0);
    for (Offset k = 0; k < memory.size(); ++k) memory.data(k) = written_byte(seed, number, 0, 0, k);
    int room = 0, position = 0;
    MPI_Pack_size(access.count, type->handle, MPI_COMM_SELF, &room);
    check::Bytes packed(static_cast<std::size_t>(room) + 16);
    CHECK_OK(MPI_Pack(memory.origin(), access.count, type->handle, packed.data(), static_cast<int>(packed.size()), &position, MPI_COMM_SELF));
    bool same = position == memory.size();
    for (Offset k = 0; same && k < memory.size(); ++k) same = packed[static_cast<std::size_t>(k)] == written_byte(seed, number, 0, 0, k);
    if (!same && (++differing == 1 || type->text.size() < example.size())) example = type->text;
  }
  if (differing > 0 && check::rank == 0)
    std::fprintf(stderr, "random_views: %d of %d types are packed otherwise by this MPI, the shortest is %s\n", differing, types, example.c_str());
  CHECK(differing < types / 50);
}

TEST(random_cases) {
  read_options();
  const std::uint64_t seed = std::strtoull(check::option("--seed", "20240").c_str(), nullptr, 10);
  const int given = std::atoi(check::option("--cases", "1000").c_str()), only = std::atoi(check::option("--only", "-1").c_str());
  const int cases = check::flag("--shared-out") ? std::max(1, given / check::size) : given;
  const int most_failures = std::atoi(check::option("--failures", "3").c_str());
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGTERM}) std::signal(number, tell_case);
  if (check::rank == 0) std::fprintf(stderr, "random_views: seed %llu, %d cases\n", static_cast<unsigned long long>(seed), only < 0 ? cases : 1);
  int failures = 0;
  for (int number = only < 0 ? 0 : only; number < (only < 0 ? cases : only + 1) && failures < most_failures; ++number) {
    running_case = number;
    const Case what = CaseMaker(seed, number, largest_level).make();
    if (check::flag("--show")) print_case(what, std::vector<bool>(what.steps.size(), false));
    if (Runner(what, true).run(std::vector<bool>(what.steps.size(), false))) continue;
    ++failures;
    report_failure(seed, number);
    CHECK(!"the file and memory are as the model says");
  }
  if (check::rank == 0 && bounds_disagreements > 0)
    std::fprintf(stderr, "random_views: %d types were not used because this MPI refuses them or sees other bounds\n", bounds_disagreements);
}

TEST_MAIN(MPI_THREAD_SINGLE)

// Decoding datatypes through MPI's own description of them (MPI 4.1 section 5.1.13).
#include "mpi/datatype.h"

#include <array>
#include <atomic>
#include <cfloat>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "access/convert.h"
#include "comm/mpi/topology.h"
#include "mpi/datarep.h"
#include "mpi/errors.h"
#include "mpi/real.h"

namespace penstock::mpi {

namespace {

PENSTOCK_OPTIONAL_MPI(get_envelope_c, "PMPI_Type_get_envelope_c",
                      int(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*));
PENSTOCK_OPTIONAL_MPI(get_contents_c, "PMPI_Type_get_contents_c",
                      int(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*, MPI_Aint*, MPI_Count*, MPI_Datatype*));

/// How a datatype was made.  Numbers that the large-count constructors keep apart from the small ones are put in one list, in the order of the
/// constructor's arguments.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  bool large = false;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;

  ~Contents() {
    // Handles of derived datatypes are ours to free (MPI 4.1 section 5.1.13).
    for (MPI_Datatype& type : types)
      if (!is_named(type)) PMPI_Type_free(&type);
  }
};

Status read_contents(MPI_Datatype datatype, Contents& contents) {
  if (get_envelope_c.exists() && get_contents_c.exists()) {
    MPI_Count integers = 0;
    MPI_Count addresses = 0;
    MPI_Count counts = 0;
    MPI_Count types = 0;
    PENSTOCK_TRY(status_from_mpi(get_envelope_c(datatype, &integers, &addresses, &counts, &types, &contents.combiner), "datatype"));
    if (contents.combiner == MPI_COMBINER_NAMED) return {};
    contents.integers.resize(static_cast<std::size_t>(integers));
    contents.addresses.resize(static_cast<std::size_t>(addresses));
    contents.counts.resize(static_cast<std::size_t>(counts));
    std::vector<MPI_Datatype> handles(static_cast<std::size_t>(types), MPI_DATATYPE_NULL);
    contents.large = counts > 0;
    PENSTOCK_TRY(status_from_mpi(get_contents_c(datatype, integers, addresses, counts, types, contents.integers.data(),
                                                contents.addresses.data(), contents.counts.data(), handles.data()),
                                 "datatype"));
    contents.types = std::move(handles);
    return {};
  }
  int integers = 0;
  int addresses = 0;
  int types = 0;
  PENSTOCK_TRY(status_from_mpi(PMPI_Type_get_envelope(datatype, &integers, &addresses, &types, &contents.combiner), "datatype"));
  if (contents.combiner == MPI_COMBINER_NAMED) return {};
  contents.integers.resize(static_cast<std::size_t>(integers));
  contents.addresses.resize(static_cast<std::size_t>(addresses));
  std::vector<MPI_Datatype> handles(static_cast<std::size_t>(types), MPI_DATATYPE_NULL);
  PENSTOCK_TRY(status_from_mpi(PMPI_Type_get_contents(datatype, integers, addresses, types, contents.integers.data(),
                                                      contents.addresses.data(), handles.data()),
                               "datatype"));
  contents.types = std::move(handles);
  return {};
}

/// Takes a constructor's arguments one after another, whichever list they are kept in.
class Arguments {
 public:
  explicit Arguments(const Contents& contents) : contents_(contents) {}
  Offset integer() { return integer_ < contents_.integers.size() ? contents_.integers[integer_++] : 0; }
  Offset count() { return contents_.large ? large() : integer(); }
  Offset address() { return contents_.large ? large() : (address_ < contents_.addresses.size() ? contents_.addresses[address_++] : 0); }
  std::vector<Offset> counts(Offset number) { return take(number, &Arguments::count); }
  std::vector<Offset> integers(Offset number) { return take(number, &Arguments::integer); }
  std::vector<Offset> addresses(Offset number) { return take(number, &Arguments::address); }

 private:
  Offset large() { return count_ < contents_.counts.size() ? contents_.counts[count_++] : 0; }
  std::vector<Offset> take(Offset number, Offset (Arguments::*next)()) {
    std::vector<Offset> values(static_cast<std::size_t>(number));
    for (Offset& value : values) value = (this->*next)();
    return values;
  }
  const Contents& contents_;
  std::size_t integer_ = 0;
  std::size_t address_ = 0;
  std::size_t count_ = 0;
};

access::Order order_of(Offset order) { return order == MPI_ORDER_FORTRAN ? access::Order::kFortran : access::Order::kC; }

access::Distribution distribution_of(Offset distribution) {
  if (distribution == MPI_DISTRIBUTE_BLOCK) return access::Distribution::kBlock;
  if (distribution == MPI_DISTRIBUTE_CYCLIC) return access::Distribution::kCyclic;
  return access::Distribution::kNone;
}

access::Element element_of(MPI_Datatype named) {
  using access::Element;
  struct Row {
    MPI_Datatype datatype;
    Element element;
  };
  static const Row rows[] = {
      {MPI_SIGNED_CHAR, Element::kSigned},  {MPI_SHORT, Element::kSigned},       {MPI_INT, Element::kSigned},
      {MPI_LONG, Element::kSigned},         {MPI_LONG_LONG, Element::kSigned},   {MPI_INT8_T, Element::kSigned},
      {MPI_INT16_T, Element::kSigned},      {MPI_INT32_T, Element::kSigned},     {MPI_INT64_T, Element::kSigned},
      {MPI_AINT, Element::kSigned},         {MPI_COUNT, Element::kSigned},       {MPI_OFFSET, Element::kSigned},
      {MPI_INTEGER, Element::kSigned},      {MPI_INTEGER1, Element::kSigned},    {MPI_INTEGER2, Element::kSigned},
      {MPI_INTEGER4, Element::kSigned},     {MPI_INTEGER8, Element::kSigned},    {MPI_UNSIGNED_CHAR, Element::kUnsigned},
      {MPI_UNSIGNED_SHORT, Element::kUnsigned}, {MPI_UNSIGNED, Element::kUnsigned},
      {MPI_UNSIGNED_LONG, Element::kUnsigned},  {MPI_UNSIGNED_LONG_LONG, Element::kUnsigned},
      {MPI_UINT8_T, Element::kUnsigned},    {MPI_UINT16_T, Element::kUnsigned},  {MPI_UINT32_T, Element::kUnsigned},
      {MPI_UINT64_T, Element::kUnsigned},   {MPI_FLOAT, Element::kFloat},        {MPI_DOUBLE, Element::kFloat},
      {MPI_LONG_DOUBLE, access::kLongDouble},   {MPI_REAL, Element::kFloat},         {MPI_DOUBLE_PRECISION, Element::kFloat},
      {MPI_REAL4, Element::kFloat},         {MPI_REAL8, Element::kFloat},        {MPI_REAL16, Element::kFloat},
      {MPI_C_FLOAT_COMPLEX, Element::kComplex}, {MPI_C_DOUBLE_COMPLEX, Element::kComplex},
      {MPI_C_LONG_DOUBLE_COMPLEX, access::kComplexLongDouble}, {MPI_COMPLEX, Element::kComplex},
      {MPI_DOUBLE_COMPLEX, Element::kComplex}, {MPI_COMPLEX8, Element::kComplex}, {MPI_COMPLEX16, Element::kComplex},
      {MPI_CXX_FLOAT_COMPLEX, Element::kComplex}, {MPI_CXX_DOUBLE_COMPLEX, Element::kComplex},
      {MPI_CXX_LONG_DOUBLE_COMPLEX, access::kComplexLongDouble}, {MPI_LOGICAL, Element::kLogical},
      {MPI_C_BOOL, Element::kUnsigned},     {MPI_CXX_BOOL, Element::kUnsigned},  {MPI_CHAR, Element::kCharacter},
      {MPI_CHARACTER, Element::kCharacter}, {MPI_WCHAR, Element::kWide},
      // Bytes are characters too: neither is ever converted.
      {MPI_BYTE, Element::kCharacter},      {MPI_PACKED, Element::kCharacter},
  // Those that not every mpi.h has.
#ifdef MPI_INTEGER16
      {MPI_INTEGER16, Element::kSigned},
#endif
#ifdef MPI_REAL2
      {MPI_REAL2, Element::kFloat},
#endif
#ifdef MPIX_C_FLOAT16
      {MPIX_C_FLOAT16, Element::kFloat},
#endif
#ifdef MPI_COMPLEX4
      {MPI_COMPLEX4, Element::kComplex},
#endif
#ifdef MPI_COMPLEX32
      {MPI_COMPLEX32, Element::kComplex},
#endif
#ifdef MPI_LOGICAL1
      {MPI_LOGICAL1, Element::kLogical},
#endif
#ifdef MPI_LOGICAL2
      {MPI_LOGICAL2, Element::kLogical},
#endif
#ifdef MPI_LOGICAL4
      {MPI_LOGICAL4, Element::kLogical},
#endif
#ifdef MPI_LOGICAL8
      {MPI_LOGICAL8, Element::kLogical},
#endif
#ifdef MPI_LOGICAL16
      {MPI_LOGICAL16, Element::kLogical},
#endif
  };
  for (const Row& row : rows)
    if (row.datatype != MPI_DATATYPE_NULL && row.datatype == named) return row.element;
  return Element::kRaw;
}

/// A 16-byte real or complex part that Fortran's precision and range stand for: the format of `long double` as far as that has them.
access::Element float_of(const Contents& contents, MPI_Count size) {
  const bool complex = contents.combiner == MPI_COMBINER_F90_COMPLEX;
  const MPI_Count size_of_part = complex ? size / 2 : size;
  const auto asked = [&contents](std::size_t i) { return i < contents.integers.size() && contents.integers[i] != MPI_UNDEFINED ? contents.integers[i] : 0; };
  const bool is_long_double = size_of_part == sizeof(long double) && size_of_part > MPI_Count{sizeof(double)} && asked(0) <= LDBL_DIG && asked(1) <= LDBL_MAX_10_EXP;
  if (is_long_double) return complex ? access::kComplexLongDouble : access::kLongDouble;
  return complex ? access::Element::kComplex : access::Element::kFloat;
}

/// The predefined pairs of MPI_MINLOC.
struct Pair {
  MPI_Datatype first;
  MPI_Datatype second;
  Offset second_at = 0;  ///< 0: right behind the first
};

std::optional<Pair> pair_of(MPI_Datatype named) {
  struct FloatInt { float value; int index; };
  struct DoubleInt { double value; int index; };
  struct LongInt { long value; int index; };
  struct ShortInt { short value; int index; };
  struct LongDoubleInt { long double value; int index; };
  if (named == MPI_FLOAT_INT) return Pair{MPI_FLOAT, MPI_INT, offsetof(FloatInt, index)};
  if (named == MPI_DOUBLE_INT) return Pair{MPI_DOUBLE, MPI_INT, offsetof(DoubleInt, index)};
  if (named == MPI_LONG_INT) return Pair{MPI_LONG, MPI_INT, offsetof(LongInt, index)};
  if (named == MPI_SHORT_INT) return Pair{MPI_SHORT, MPI_INT, offsetof(ShortInt, index)};
  if (named == MPI_LONG_DOUBLE_INT) return Pair{MPI_LONG_DOUBLE, MPI_INT, offsetof(LongDoubleInt, index)};
  if (named == MPI_2INT) return Pair{MPI_INT, MPI_INT};
  if (named == MPI_2INTEGER) return Pair{MPI_INTEGER, MPI_INTEGER};
  if (named == MPI_2REAL) return Pair{MPI_REAL, MPI_REAL};
  if (named == MPI_2DOUBLE_PRECISION) return Pair{MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION};
  return std::nullopt;
}

/// What a walk over a datatype makes of it.
struct Form {
  bool typed = false;                                   ///< keep what elements are
  const DataRepresentation* in_file = nullptr;          ///< sizes of this representation; null: of memory
  bool counting = false;                                ///< every element is one byte: the size is the number of elements
  [[nodiscard]] bool plain() const { return !typed && in_memory(); }
  [[nodiscard]] bool in_memory() const { return in_file == nullptr && !counting; }
};

Status memory_bounds(MPI_Datatype datatype, access::Type& type) {
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  PENSTOCK_TRY(status_from_mpi(PMPI_Type_get_extent_x(datatype, &lower_bound, &extent), "datatype"));
  type.lower_bound = lower_bound;
  type.extent = extent;
  return {};
}

Result<access::Type> named_type(MPI_Datatype datatype, const Form& form);

/// Better said than its bytes left as they are in memory, in a file that any machine should be able to read.
Status unknown_element(MPI_Datatype datatype, MPI_Count size) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(datatype, name, &length);
  return Status::failure(Code::kUnsupported, std::string("external32: the predefined datatype ") + name + " of " + std::to_string(size) +
                                                 " bytes has no conversion; use the native data representation for it");
}

Result<access::Type> element_type(MPI_Datatype datatype, const Form& form) {
  MPI_Count size = 0;
  PENSTOCK_TRY(status_from_mpi(PMPI_Type_size_x(datatype, &size), "datatype"));
  const access::Element element = element_of(datatype);
  const bool known = element != access::Element::kRaw || size == 0;
  if (!known && form.typed && form.in_file != nullptr && form.in_file->kind == DataRepresentation::Kind::kExternal32)
    return unknown_element(datatype, size);
  Offset bytes = size;
  if (form.in_file != nullptr) {
    Result<Offset> in_file = element_size_in_file(*form.in_file, datatype, size, element);
    if (!in_file.ok()) return in_file.status();
    bytes = *in_file;
  }
  if (bytes == 0) return access::structure({}, {}, {});
  if (form.counting) return access::elementary(1);
  // Raw bytes would come as so many elements.
  return access::elementary(bytes, !form.typed ? access::Element::kRaw : known ? element : access::Element::kCharacter);
}

Result<access::Type> named_type(MPI_Datatype datatype, const Form& form) {
  const std::optional<Pair> pair = pair_of(datatype);
  if (!pair) {
    Result<access::Type> type = element_type(datatype, form);
    if (type.ok() && form.in_memory()) PENSTOCK_TRY(memory_bounds(datatype, *type));
    return type;
  }
  Result<access::Type> first = element_type(pair->first, form);
  if (!first.ok()) return first;
  Result<access::Type> second = element_type(pair->second, form);
  if (!second.ok()) return second;
  const Offset second_at = form.in_memory() && pair->second_at > 0 ? pair->second_at : first->size();
  const Offset lengths[] = {1, 1};
  const Offset displacements[] = {0, second_at};
  const access::Type parts[] = {*first, *second};
  Result<access::Type> type = access::structure(lengths, displacements, parts);
  if (type.ok() && form.in_memory()) PENSTOCK_TRY(memory_bounds(datatype, *type));
  return type;
}

Result<access::Type> walk(MPI_Datatype datatype, const Form& form);

Result<access::Type> child_of(MPI_Datatype datatype, const Form& form) {
  if (!form.plain()) return walk(datatype, form);
  // Kept with the child, so that a datatype built from itself many times over is walked once per level.
  Result<const Decoded*> decoded = decode(datatype);
  if (!decoded.ok()) return decoded.status();
  return (*decoded)->type;
}

std::vector<Offset> scaled(std::vector<Offset> values, Offset factor) {
  for (Offset& value : values)
    if (!checked_multiply(value, factor, value)) value = INT64_MAX;  // refused by the constructor
  return values;
}

Result<access::Type> derived_type(const Contents& contents, const Form& form) {
  Arguments arguments(contents);
  if (contents.combiner == MPI_COMBINER_STRUCT) {
    const Offset number = arguments.count();
    const std::vector<Offset> lengths = arguments.counts(number);
    const std::vector<Offset> displacements = arguments.addresses(number);
    std::vector<access::Type> types;
    types.reserve(contents.types.size());
    for (MPI_Datatype type : contents.types) {
      Result<access::Type> part = child_of(type, form);
      if (!part.ok()) return part;
      types.push_back(std::move(*part));
    }
    return access::structure(lengths, displacements, types);
  }
  if (contents.types.empty()) return Status::failure(Code::kType, "datatype: MPI describes it without what it is made of");
  Result<access::Type> child = child_of(contents.types.front(), form);
  if (!child.ok()) return child;

  switch (contents.combiner) {
    case MPI_COMBINER_DUP:
      return child;
    case MPI_COMBINER_CONTIGUOUS:
      return access::contiguous(arguments.count(), *child);
    case MPI_COMBINER_VECTOR: {
      const Offset count = arguments.count();
      const Offset length = arguments.count();
      Offset stride = 0;
      if (!checked_multiply(arguments.count(), child->extent, stride))
        return Status::failure(Code::kType, "datatype: the stride of a vector does not fit 64 bits");
      return access::hvector(count, length, stride, *child);
    }
    case MPI_COMBINER_HVECTOR: {
      const Offset count = arguments.count();
      const Offset length = arguments.count();
      return access::hvector(count, length, arguments.address(), *child);
    }
    case MPI_COMBINER_INDEXED: {
      const Offset count = arguments.count();
      const std::vector<Offset> lengths = arguments.counts(count);
      return access::hindexed(lengths, scaled(arguments.counts(count), child->extent), *child);
    }
    case MPI_COMBINER_HINDEXED: {
      const Offset count = arguments.count();
      const std::vector<Offset> lengths = arguments.counts(count);
      return access::hindexed(lengths, arguments.addresses(count), *child);
    }
    case MPI_COMBINER_INDEXED_BLOCK: {
      const Offset count = arguments.count();
      const Offset length = arguments.count();
      return access::hindexed_block(length, scaled(arguments.counts(count), child->extent), *child);
    }
    case MPI_COMBINER_HINDEXED_BLOCK: {
      const Offset count = arguments.count();
      const Offset length = arguments.count();
      return access::hindexed_block(length, arguments.addresses(count), *child);
    }
    case MPI_COMBINER_SUBARRAY: {
      const Offset dimensions = arguments.integer();
      const std::vector<Offset> sizes = arguments.counts(dimensions);
      const std::vector<Offset> subsizes = arguments.counts(dimensions);
      const std::vector<Offset> starts = arguments.counts(dimensions);
      return access::subarray(sizes, subsizes, starts, order_of(arguments.integer()), *child);
    }
    case MPI_COMBINER_DARRAY: {
      const auto processes = static_cast<int>(arguments.integer());
      const auto rank = static_cast<int>(arguments.integer());
      const Offset dimensions = arguments.integer();
      const std::vector<Offset> sizes = arguments.counts(dimensions);
      std::vector<access::Distribution> distributions;
      for (Offset distribution : arguments.integers(dimensions)) distributions.push_back(distribution_of(distribution));
      std::vector<Offset> parameters = arguments.integers(dimensions);
      for (Offset& parameter : parameters)
        if (parameter == MPI_DISTRIBUTE_DFLT_DARG) parameter = access::kDefaultDistribution;
      const std::vector<Offset> process_sizes = arguments.integers(dimensions);
      return access::darray(processes, rank, sizes, distributions, parameters, process_sizes, order_of(arguments.integer()), *child);
    }
    case MPI_COMBINER_RESIZED: {
      const Offset lower_bound = arguments.address();
      return access::resized(lower_bound, arguments.address(), *child);
    }
    default:
      return Status::failure(Code::kType, "datatype: made by constructor number " + std::to_string(contents.combiner) +
                                              " of this MPI library, which Penstock does not know");
  }
}

Result<access::Type> walk(MPI_Datatype datatype, const Form& form) {
  if (datatype == MPI_DATATYPE_NULL) return Status::failure(Code::kType, "the datatype is MPI_DATATYPE_NULL");
  Contents contents;
  PENSTOCK_TRY(read_contents(datatype, contents));
  switch (contents.combiner) {
    case MPI_COMBINER_NAMED:
      return named_type(datatype, form);
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
    case MPI_COMBINER_F90_INTEGER: {
      MPI_Count size = 0;
      PENSTOCK_TRY(status_from_mpi(PMPI_Type_size_x(datatype, &size), "datatype"));
      const access::Element element = contents.combiner == MPI_COMBINER_F90_INTEGER ? access::Element::kSigned : float_of(contents, size);
      Offset bytes = form.counting ? 1 : size;
      if (form.in_file != nullptr) {
        Result<Offset> in_file = element_size_in_file(*form.in_file, datatype, size, element);
        if (!in_file.ok()) return in_file.status();
        bytes = *in_file;
      }
      return access::elementary(bytes, form.typed ? element : access::Element::kRaw);
    }
    default:
      break;
  }
  Result<access::Type> type = derived_type(contents, form);
  // The library pads structs as its compiler does; ours are the bounds of the standard without padding.
  if (type.ok() && form.in_memory()) PENSTOCK_TRY(memory_bounds(datatype, *type));
  return type;
}

// --- Where decoded datatypes are kept. ----------------------------------------------------------------------------------------------

/// Predefined datatypes live for ever, so a table that is only added to will do; derived ones carry theirs as an attribute, which MPI deletes
/// together with the datatype.
struct NamedEntry {
  std::atomic<const Decoded*> decoded{nullptr};
  MPI_Datatype datatype{};
};
constexpr std::size_t kNamedEntries = 256;  // MPI has about a hundred; a full table only costs time
std::array<NamedEntry, kNamedEntries> named_entries;
std::mutex decode_mutex;

std::size_t hash_of(MPI_Datatype datatype) {
  auto value = (std::uint64_t)datatype;  // NOLINT: an integer in one ABI, a pointer in another
  value *= 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(value >> 56) % kNamedEntries;
}

const Decoded* find_named(MPI_Datatype datatype) {
  for (std::size_t i = hash_of(datatype), tries = 0; tries < kNamedEntries; i = (i + 1) % kNamedEntries, ++tries) {
    const Decoded* decoded = named_entries[i].decoded.load(std::memory_order_acquire);
    if (decoded == nullptr) return nullptr;
    if (named_entries[i].datatype == datatype) return decoded;
  }
  return nullptr;
}

int delete_decoded(MPI_Datatype, int, void* value, void*) {
  delete static_cast<const Decoded*>(value);
  return MPI_SUCCESS;
}

int users_of_key = 0;  ///< guarded by decode_mutex
std::atomic<int> known_key{MPI_KEYVAL_INVALID};

/// The attribute key; MPI_KEYVAL_INVALID where MPI refuses one.  Requires decode_mutex.
int attribute_key() {
  int key = known_key.load(std::memory_order_relaxed);
  if (key == MPI_KEYVAL_INVALID) PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_decoded, &key, nullptr);
  return key;
}

const Decoded* find_derived(MPI_Datatype datatype) {
  const int key = known_key.load(std::memory_order_acquire);
  if (key == MPI_KEYVAL_INVALID) return nullptr;
  void* value = nullptr;
  int found = 0;
  if (PMPI_Type_get_attr(datatype, key, &value, &found) != MPI_SUCCESS || found == 0) return nullptr;
  return static_cast<const Decoded*>(value);
}

}  // namespace

KeyOfDecoded::KeyOfDecoded() {
  const std::lock_guard lock(decode_mutex);
  // From a world that ended since, and perhaps MPI with it.
  if (users_of_key++ == 0 && !comm::world_is_there()) known_key.store(MPI_KEYVAL_INVALID, std::memory_order_release);
}

KeyOfDecoded::~KeyOfDecoded() {
  const std::lock_guard lock(decode_mutex);
  int initialized = 0;
  if (--users_of_key > 0 || PMPI_Initialized(&initialized) != MPI_SUCCESS || initialized != 0) return;
  int key = known_key.exchange(MPI_KEYVAL_INVALID, std::memory_order_acq_rel);
  if (key != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&key);  // what datatypes carry by it goes with them
}

bool is_named(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL || find_named(datatype) != nullptr) return true;
  int combiner = MPI_COMBINER_NAMED;
  if (get_envelope_c.exists()) {
    MPI_Count ignored = 0;
    get_envelope_c(datatype, &ignored, &ignored, &ignored, &ignored, &combiner);
  } else {
    int ignored = 0;
    PMPI_Type_get_envelope(datatype, &ignored, &ignored, &ignored, &combiner);
  }
  // Datatypes of MPI_Type_create_f90_* are predefined too: they may not be freed.
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

Result<const Decoded*> decode(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return Status::failure(Code::kType, "the datatype is MPI_DATATYPE_NULL");
  if (const Decoded* known = find_named(datatype); known != nullptr) return known;
  if (const Decoded* known = find_derived(datatype); known != nullptr) return known;

  Result<access::Type> type = walk(datatype, Form{});
  if (!type.ok()) return type.status();
  auto* decoded = new Decoded;
  decoded->type = *type;
  decoded->tiling = access::tile(*type);
  decoded->size = type->size();
  decoded->extent = type->extent;
  if (decoded->size > 0) {
    decoded->dense = access::is_contiguous(decoded->tiling);
    decoded->one_piece = access::pieces_in(decoded->tiling, 0, decoded->size) == 1;
    decoded->first_byte = access::offset_of(decoded->tiling, 0);
  }
  std::lock_guard lock(decode_mutex);
  if (is_named(datatype)) {
    decoded->committed.store(true, std::memory_order_relaxed);
    if (const Decoded* other = find_named(datatype); other != nullptr) {
      delete decoded;
      return other;
    }
    for (std::size_t i = hash_of(datatype), tries = 0; tries < kNamedEntries; i = (i + 1) % kNamedEntries, ++tries) {
      if (named_entries[i].decoded.load(std::memory_order_relaxed) != nullptr) continue;
      named_entries[i].datatype = datatype;
      named_entries[i].decoded.store(decoded, std::memory_order_release);
      return const_cast<const Decoded*>(decoded);
    }
    delete decoded;
    return Status::failure(Code::kIntern, "datatype: more predefined datatypes than MPI has");
  }
  known_key.store(attribute_key(), std::memory_order_release);
  if (const Decoded* other = find_derived(datatype); other != nullptr) {
    delete decoded;
    return other;
  }
  if (int code = PMPI_Type_set_attr(datatype, known_key.load(std::memory_order_relaxed), decoded); code != MPI_SUCCESS) {
    delete decoded;
    return status_from_mpi(code, "datatype");
  }
  return const_cast<const Decoded*>(decoded);
}

Result<access::Type> decode_in(MPI_Datatype datatype, const DataRepresentation& representation) {
  if (!representation.resizes()) {
    Result<const Decoded*> decoded = decode(datatype);
    if (!decoded.ok()) return decoded.status();
    return (*decoded)->type;
  }
  return walk(datatype, Form{.in_file = &representation});
}

Result<Offset> elements_of(MPI_Datatype datatype) {
  const Result<access::Type> type = walk(datatype, Form{.counting = true});
  if (!type.ok()) return type.status();
  return type->size();
}

void free_datatype(MPI_Datatype& datatype) {
  if (!is_named(datatype)) PMPI_Type_free(&datatype);
  datatype = MPI_BYTE;
}

Status keep_datatype(MPI_Datatype given, MPI_Datatype& kept) {
  if (is_named(given)) {
    kept = given;
    return {};
  }
  return status_from_mpi(PMPI_Type_dup(given, &kept), "datatype");
}

Status check_committed(MPI_Datatype datatype, const Decoded& decoded) {
  if (decoded.committed.load(std::memory_order_relaxed)) return {};
  // MPI has no question for it, but its own calls refuse what is not committed.  Asked on a communicator whose errors only return, which a program of sessions
  // does not let us have for long: there it is not asked.
  if (!comm::world_is_there()) return {};
  static std::mutex mutex;
  static MPI_Comm quiet = MPI_COMM_NULL;
  std::lock_guard lock(mutex);
  if (quiet == MPI_COMM_NULL) {
    PENSTOCK_TRY(status_from_mpi(PMPI_Comm_dup(MPI_COMM_SELF, &quiet), "datatype"));
    PMPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
  }
  char nothing = 0;  // never read: there is nobody to send to
  if (PMPI_Send(&nothing, 1, datatype, MPI_PROC_NULL, 0, quiet) != MPI_SUCCESS)
    return Status::failure(Code::kType, "the datatype is not committed; call MPI_Type_commit first");
  decoded.committed.store(true, std::memory_order_relaxed);
  return {};
}

Result<access::Type> decode_typed(MPI_Datatype datatype, const DataRepresentation* in_file) {
  return walk(datatype, Form{.typed = true, .in_file = in_file});
}

}  // namespace penstock::mpi

// Data representations.
#include "mpi/datarep.h"

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>

#include "access/convert.h"
#include "mpi/datatype.h"
#include "mpi/errors.h"

namespace penstock::mpi {

namespace {

std::mutex registry_mutex;

std::map<std::string, DataRepresentation>& registry() {
  static auto* const map = new std::map<std::string, DataRepresentation>{
      {"native", {.name = "native"}},
      // Meant for files that the same MPI reads again; the native form is one.
      {"internal", {.name = "internal"}},
      {"external32", {.name = "external32", .kind = DataRepresentation::Kind::kExternal32}},
  };
  return *map;
}

/// Calls the program's conversion function, whichever form it has, on the first `elements` elements (predefined datatypes in the type map of the buffer:
/// MPI 4.1 section 14.5.3 counts those, not copies of the datatype), in steps of whole copies that its count can hold.
Status call_user(const DataRepresentation& representation, bool write, void* buffer, MPI_Datatype datatype, Offset elements, std::byte* file_form,
                 Offset elements_per_copy, Offset file_bytes_per_copy) {
  auto* small = write ? representation.write_small : representation.read_small;
  auto* large = write ? representation.write_large : representation.read_large;
  const Offset most = large != nullptr ? INT64_MAX : INT_MAX;
  if (elements_per_copy > most)
    return Status::failure(Code::kCount, "data representation \"" + representation.name + "\": one datatype has " +
                                             std::to_string(elements_per_copy) + " elements, more than the count of its conversion function can say; " +
                                             "register it with MPI_Register_datarep_c");
  const Offset step = most / elements_per_copy * elements_per_copy;
  for (Offset done = 0; done < elements;) {
    const Offset number = std::min(step, elements - done);
    void* part = file_form + done / elements_per_copy * file_bytes_per_copy;
    const int code = large != nullptr ? large(buffer, datatype, number, part, done, representation.extra_state)
                                      : small(buffer, datatype, static_cast<int>(number), part, done, representation.extra_state);
    if (code != MPI_SUCCESS)
      return Status::failure(Code::kConversion, "data representation \"" + representation.name + "\": its conversion function returned " +
                                                    std::to_string(code));
    done += number;
  }
  return {};
}

/// Sizes in external32 (the table in MPI 4.1 section 14.5.2): as in memory, but for these.
Offset external32_size(MPI_Datatype named, Offset native_size, access::Element element) {
  using access::Element;
  if (named == MPI_LONG || named == MPI_UNSIGNED_LONG) return 4;
  switch (element) {
    case Element::kWide: return 2;
    case Element::kLogical: return named == MPI_LOGICAL ? 4 : native_size;
    case Element::kExtended: return 16;
    case Element::kComplexExtended: return 32;
    default: return native_size;
  }
}

}  // namespace

bool calls_program(const DataRepresentation& representation) { return representation.kind == DataRepresentation::Kind::kUser; }

Result<Items> items_of(MPI_Datatype datatype, const DataRepresentation& representation) {
  Result<access::Type> native = decode_typed(datatype, nullptr);
  if (!native.ok()) return native.status();
  Result<access::Type> in_file = decode_typed(datatype, &representation);
  if (!in_file.ok()) return in_file.status();
  const Result<Offset> elements = calls_program(representation) ? elements_of(datatype) : Offset{0};
  if (!elements.ok()) return elements.status();
  return Items{std::move(*native), std::move(*in_file), *elements};
}

Offset bytes_in_memory(const Items& items, Offset file_bytes) {
  if (items.in_file.size() == 0) return 0;
  const Offset whole = file_bytes / items.in_file.size();
  const Offset rest = file_bytes % items.in_file.size();
  return whole * items.native.size() + (rest > 0 ? access::whole_elements(items.native, items.in_file, rest).native_bytes : 0);
}

bool DataRepresentation::converts(bool write) const {
  if (kind == Kind::kExternal32) return true;
  return write ? write_small != nullptr || write_large != nullptr : read_small != nullptr || read_large != nullptr;
}

Result<const DataRepresentation*> find_representation(const std::string& name) {
  std::lock_guard lock(registry_mutex);
  const auto found = registry().find(name);
  if (found == registry().end())
    return Status::failure(Code::kUnknownDatarep, "data representation \"" + name +
                                                      "\" is unknown; use native, internal, external32 or one registered with MPI_Register_datarep");
  return &found->second;
}

const DataRepresentation& native_representation() {
  std::lock_guard lock(registry_mutex);
  return registry().at("native");
}

Status register_representation(DataRepresentation representation) {
  if (representation.name.empty() || representation.name.size() >= MPI_MAX_DATAREP_STRING)
    return Status::failure(Code::kArgument, "MPI_Register_datarep: the name must have 1 to " + std::to_string(MPI_MAX_DATAREP_STRING - 1) +
                                                " characters; this one has " + std::to_string(representation.name.size()));
  if (representation.extent == nullptr)
    return Status::failure(Code::kArgument, "MPI_Register_datarep: \"" + representation.name + "\" has no extent function");
  std::lock_guard lock(registry_mutex);
  const std::string name = representation.name;
  if (!registry().emplace(name, std::move(representation)).second)
    return Status::failure(Code::kDuplicateDatarep, "MPI_Register_datarep: \"" + name + "\" is registered already");
  return {};
}

Result<Offset> element_size_in_file(const DataRepresentation& representation, MPI_Datatype named, Offset native_size, access::Element element) {
  switch (representation.kind) {
    case DataRepresentation::Kind::kNative:
      return native_size;
    case DataRepresentation::Kind::kExternal32:
      return external32_size(named, native_size, element);
    case DataRepresentation::Kind::kUser:
      break;
  }
  MPI_Aint extent = 0;
  if (int code = representation.extent(named, &extent, representation.extra_state); code != MPI_SUCCESS || extent < 0)
    return Status::failure(Code::kConversion, "data representation \"" + representation.name + "\": its extent function returned " +
                                                  std::to_string(code) + " and extent " + std::to_string(extent));
  return Offset{extent};
}

Status convert_to_file(const DataRepresentation& representation, const void* buffer, MPI_Datatype datatype, const Items& items, Offset count,
                       std::byte* file_form, Offset file_bytes) {
  if (count == 0 || file_bytes == 0) return {};
  if (calls_program(representation))
    return call_user(representation, true, const_cast<void*>(buffer), datatype, items.elements * count, file_form, items.elements, file_bytes / count);
  access::Conversion conversion(items.native, items.in_file, count);
  const Result<Offset> filled = conversion.to_external32(static_cast<const std::byte*>(buffer), file_form, file_bytes);
  if (filled.ok() && *filled != file_bytes)
    return Status::failure(Code::kIntern, "external32: " + std::to_string(*filled) + " of " + std::to_string(file_bytes) + " bytes were converted");
  return filled.status();
}

Status convert_from_file(const DataRepresentation& representation, void* buffer, MPI_Datatype datatype, const Items& items, Offset count,
                         const std::byte* file_form, Offset file_bytes) {
  if (calls_program(representation)) {
    const Offset item_bytes = items.in_file.size();
    if (items.elements == 0 || item_bytes == 0) return {};
    const Offset elements = file_bytes / item_bytes * items.elements + access::whole_elements(items.native, items.in_file, file_bytes % item_bytes).count;
    return call_user(representation, false, buffer, datatype, elements, const_cast<std::byte*>(file_form), items.elements, item_bytes);
  }
  access::Conversion conversion(items.native, items.in_file, count);
  // An element that the end of the file cut in two stays unread.
  return conversion.from_external32(file_form, file_bytes, static_cast<std::byte*>(buffer)).status();
}

}  // namespace penstock::mpi

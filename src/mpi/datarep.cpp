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

}  // namespace

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
      return access::external32_size(element, native_size);
    case DataRepresentation::Kind::kUser:
      break;
  }
  MPI_Aint extent = 0;
  if (int code = representation.extent(named, &extent, representation.extra_state); code != MPI_SUCCESS || extent < 0)
    return Status::failure(Code::kConversion, "data representation \"" + representation.name + "\": its extent function returned " +
                                                  std::to_string(code) + " and extent " + std::to_string(extent));
  return Offset{extent};
}

Status convert_to_file(const DataRepresentation& representation, const void* buffer, MPI_Datatype datatype, Offset count, std::byte* file_form,
                       Offset file_bytes) {
  if (count == 0 || file_bytes == 0) return {};
  if (representation.kind == DataRepresentation::Kind::kUser) {
    const Result<Offset> elements = elements_of(datatype);
    if (!elements.ok()) return elements.status();
    return call_user(representation, true, const_cast<void*>(buffer), datatype, *elements * count, file_form, *elements, file_bytes / count);
  }
  Result<access::Type> typed = decode_typed(datatype);
  if (!typed.ok()) return typed.status();
  return access::to_external32(access::tile(*typed), static_cast<const std::byte*>(buffer), typed->size() * count, file_form, file_bytes);
}

Status convert_from_file(const DataRepresentation& representation, void* buffer, MPI_Datatype datatype, Offset count, const std::byte* file_form,
                         Offset file_bytes) {
  Result<access::Type> item = decode_in(datatype, representation);
  if (!item.ok()) return item.status();
  if (representation.kind == DataRepresentation::Kind::kUser) {
    const Result<Offset> elements = elements_of(datatype);
    if (!elements.ok()) return elements.status();
    if (*elements == 0 || item->size() == 0) return {};
    // Where the file ended within a copy: as many elements as are whole, if all are of one size; else as many copies.
    Offset whole = std::min(count, file_bytes / item->size()) * *elements;
    if (item->size() % *elements == 0) whole = std::min(count * *elements, file_bytes / (item->size() / *elements));
    return call_user(representation, false, buffer, datatype, whole, const_cast<std::byte*>(file_form), *elements, item->size());
  }
  Result<access::Type> typed = decode_typed(datatype);
  if (!typed.ok()) return typed.status();
  return access::from_external32(access::tile(*typed), static_cast<std::byte*>(buffer), typed->size() * count, file_form, file_bytes);
}

}  // namespace penstock::mpi

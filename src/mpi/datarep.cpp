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

/// Calls the program's conversion function, whichever form it has, in steps that its count can hold.
Status call_user(const DataRepresentation& representation, bool write, void* buffer, MPI_Datatype datatype, Offset count, std::byte* file_form,
                 Offset item_file_bytes) {
  auto* small = write ? representation.write_small : representation.read_small;
  auto* large = write ? representation.write_large : representation.read_large;
  constexpr Offset kStep = INT_MAX;
  for (Offset done = 0; done < count;) {
    const Offset items = large != nullptr ? count - done : std::min(kStep, count - done);
    void* part = file_form + done * item_file_bytes;
    const int code = large != nullptr
                         ? large(buffer, datatype, items, part, done, representation.extra_state)
                         : small(buffer, datatype, static_cast<int>(items), part, done, representation.extra_state);
    if (code != MPI_SUCCESS)
      return Status::failure(Code::kConversion, "data representation \"" + representation.name + "\": its conversion function returned " +
                                                    std::to_string(code));
    done += items;
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
  if (representation.kind == DataRepresentation::Kind::kUser)
    return call_user(representation, true, const_cast<void*>(buffer), datatype, count, file_form, count > 0 ? file_bytes / count : 0);
  Result<access::Type> typed = decode_typed(datatype);
  if (!typed.ok()) return typed.status();
  return access::to_external32(access::tile(*typed), static_cast<const std::byte*>(buffer), typed->size() * count, file_form, file_bytes);
}

Status convert_from_file(const DataRepresentation& representation, void* buffer, MPI_Datatype datatype, Offset count, const std::byte* file_form,
                         Offset file_bytes) {
  Result<access::Type> item = decode_in(datatype, representation);
  if (!item.ok()) return item.status();
  if (representation.kind == DataRepresentation::Kind::kUser) {
    // Only whole items can be given to the program's function; a cut one at the end of the file stays unread.
    const Offset whole = item->size() > 0 ? std::min(count, file_bytes / item->size()) : 0;
    return call_user(representation, false, buffer, datatype, whole, const_cast<std::byte*>(file_form), item->size());
  }
  Result<access::Type> typed = decode_typed(datatype);
  if (!typed.ok()) return typed.status();
  return access::from_external32(access::tile(*typed), static_cast<std::byte*>(buffer), typed->size() * count, file_form, file_bytes);
}

}  // namespace penstock::mpi

// MPI_Info to hints and back.
#include "mpi/info.h"

#include "mpi/errors.h"

namespace penstock::mpi {

Result<std::vector<hints::Given>> given_by(MPI_Info info) {
  std::vector<hints::Given> given;
  if (info == MPI_INFO_NULL) return given;
  int number = 0;
  PENSTOCK_TRY(status_from_mpi(PMPI_Info_get_nkeys(info, &number), "MPI_Info"));
  for (int i = 0; i < number; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = {};
    int length = 0;
    int found = 0;
    PENSTOCK_TRY(status_from_mpi(PMPI_Info_get_nthkey(info, i, key), "MPI_Info"));
    PENSTOCK_TRY(status_from_mpi(PMPI_Info_get_valuelen(info, key, &length, &found), "MPI_Info"));
    if (found == 0) continue;
    std::string value(static_cast<std::size_t>(length) + 1, '\0');
    PENSTOCK_TRY(status_from_mpi(PMPI_Info_get(info, key, length, value.data(), &found), "MPI_Info"));
    value.resize(std::char_traits<char>::length(value.c_str()));
    given.push_back({key, value, "MPI_Info"});
  }
  return given;
}

Status make_info(const std::map<std::string, std::string>& pairs, MPI_Info* info) {
  PENSTOCK_TRY(status_from_mpi(PMPI_Info_create(info), "MPI_Info"));
  for (const auto& [key, value] : pairs) {
    // MPI has no empty values in an info object: what is not set is not told.
    if (value.empty() || key.size() >= MPI_MAX_INFO_KEY || value.size() >= MPI_MAX_INFO_VAL) continue;
    PENSTOCK_TRY(status_from_mpi(PMPI_Info_set(*info, key.c_str(), value.c_str()), "MPI_Info"));
  }
  return {};
}

}  // namespace penstock::mpi

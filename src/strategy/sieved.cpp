// The sieved strategy: large windows of the file, of which the pieces are a part.
#include "strategy/staged.h"

namespace penstock::strategy {

Result<Offset> read_sieved(const Access& access) {
  if (access.bytes <= 0) return Offset{0};
  return read_staged(access);
}

Result<Offset> write_sieved(const Access& access) {
  if (access.bytes <= 0) return Offset{0};
  const store::Traits& traits = access.store.traits();
  if (!traits.range_locks || !traits.can_read_back)
    return Status::failure(Code::kUnsupported, "a sieved write needs byte-range locks and permission to read the file");
  return write_staged(access, Exclusion::kRangeLocks);
}

}  // namespace penstock::strategy

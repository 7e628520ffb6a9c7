// What every Comm can do by means of the others.
#include "comm/comm.h"

namespace penstock::comm {

Verdict Comm::agree_same(const Verdict& mine, std::uint64_t fingerprint) {
  if (topology().size == 1) return mine;
  std::uint64_t first = fingerprint;
  Verdict verdict = mine;
  if (Status sent = broadcast(&first, sizeof first, 0); !sent.ok() && verdict.ok())
    verdict = {static_cast<std::int32_t>(sent.code()), sent.system_errno(), topology().rank};
  if (verdict.ok() && first != fingerprint) verdict = {static_cast<std::int32_t>(Code::kNotSame), 0, topology().rank};
  return agree(verdict);
}

}  // namespace penstock::comm

// From a description to Penstock's own type: the bridge by which the code under test meets the oracle.
#pragma once

#include "access/layout.h"
#include "oracle/datatype.h"

namespace penstock::oracle {

inline Result<access::Type> access_type(const Datatype& type) {
  std::vector<access::Type> parts;
  for (const Datatype& part : type.parts) {
    Result<access::Type> made = access_type(part);
    if (!made.ok()) return made;
    parts.push_back(*made);
  }
  const access::Order order = type.fortran ? access::Order::kFortran : access::Order::kC;
  switch (type.combiner) {
    case Combiner::kElementary:
      return access::elementary(type.size, static_cast<access::Element>(type.element));
    case Combiner::kContiguous:
      return access::contiguous(type.count, parts[0]);
    case Combiner::kHvector:
      return access::hvector(type.count, type.block_length, type.stride, parts[0]);
    case Combiner::kHindexed:
      return access::hindexed(type.block_lengths, type.displacements, parts[0]);
    case Combiner::kHindexedBlock:
      return access::hindexed_block(type.block_length, type.displacements, parts[0]);
    case Combiner::kStructure:
      return access::structure(type.block_lengths, type.displacements, parts);
    case Combiner::kResized:
      return access::resized(type.lower_bound, type.extent, parts[0]);
    case Combiner::kSubarray:
      return access::subarray(type.sizes, type.subsizes, type.starts, order, parts[0]);
    case Combiner::kDarray: {
      std::vector<access::Distribution> distributions;
      for (Spread spread : type.spreads)
        distributions.push_back(spread == Spread::kBlock    ? access::Distribution::kBlock
                                : spread == Spread::kCyclic ? access::Distribution::kCyclic
                                                            : access::Distribution::kNone);
      return access::darray(type.process_count, type.rank, type.sizes, distributions, type.arguments, type.process_sizes,
                            order, parts[0]);
    }
  }
  return Status::failure(Code::kType, "no such combiner");
}

}  // namespace penstock::oracle

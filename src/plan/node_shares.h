// How many aggregators each node gets by a list of nodes.  Pure.
#pragma once

#include <string>
#include <vector>

#include "hints/config_list.h"

namespace penstock::plan {

/// Global aggregators of each node: `count` of them, or as many as the list allows; count 0: all that it allows.  The entries get their share in the order of the
/// list, an entry for several nodes one of each node in turn.  Nodes may share a name: an entry is about all of them, and its limit about each.
/// A name is the same as another in letters of either case, and as one without a domain that begins like it.  A node counts by the first entry that fits it,
/// and gets none where none does.
/// Requires: one name and one number of ranks for each node.
std::vector<int> node_shares(const std::vector<hints::NodeLimit>& list, const std::vector<std::string>& name_of_node,
                             const std::vector<int>& ranks_of_node, int count);

}  // namespace penstock::plan

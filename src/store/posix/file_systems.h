// What is known of file systems by their magic number.  A table of facts; makes no system calls.
#pragma once

#include <string_view>

namespace penstock::store {

/// Promises of one file system, for regular files.
struct FileSystem {
  unsigned long magic;  ///< f_type of statfs(2)
  std::string_view name;
  bool node_local;              ///< the page cache of this node is the truth
  bool coherent_between_nodes;  ///< a finished write is seen by a later read on another node
  bool try_map;                 ///< whether MAP_SHARED works depends on the mount: find out
};

/// Never null: an unknown file system is one that promises nothing.
const FileSystem& file_system_of_magic(unsigned long magic);

}  // namespace penstock::store

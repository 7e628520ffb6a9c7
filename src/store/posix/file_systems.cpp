// The table of file systems, by magic number (linux/magic.h and the file systems' own headers).
#include "store/posix/file_systems.h"

namespace penstock::store {

namespace {

// A network or cluster file system promises coherence only where its documentation gives POSIX consistency between
// nodes by distributed locks or capabilities (Lustre, GPFS, CephFS, OCFS2, GFS2).  NFS, Gluster, BeeGFS, SMB and FUSE
// cache on the client.
constexpr FileSystem kFileSystems[] = {
    {0x01021994, "tmpfs", true, true, false},      {0x858458f6, "ramfs", true, true, false},
    {0x958458f6, "hugetlbfs", false, false, true},  // no write(2): leave it to whatever works
    {0xef53, "ext4", true, true, false},            // ext2 and ext3 share the number
    {0x58465342, "xfs", true, true, false},        {0x9123683e, "btrfs", true, true, false},
    {0x794c7630, "overlay", true, true, false},    {0xf2f52010, "f2fs", true, true, false},
    {0x2fc12fc1, "zfs", true, true, false},        {0xca451a4e, "bcachefs", true, true, false},
    {0x3153464a, "jfs", true, true, false},        {0x52654973, "reiserfs", true, true, false},
    {0x6969, "nfs", false, false, false},          {0x0bd00bd0, "lustre", false, true, false},
    {0x47504653, "gpfs", false, true, false},      {0x00c36400, "cephfs", false, true, false},
    {0x7461636f, "ocfs2", false, true, false},     {0x01161970, "gfs2", false, true, false},
    {0x19830326, "beegfs", false, false, false},   {0xaad7aaea, "panfs", false, false, false},
    {0x20030528, "orangefs", false, false, true},  {0xff534d42, "cifs", false, false, true},
    {0xfe534d42, "smb2", false, false, true},      {0x01021997, "9p", false, false, true},
    {0x65735546, "fuse", false, false, true},  // GlusterFS, MooseFS, sshfs ... all come as this
};

constexpr FileSystem kUnknown = {0, "unknown", false, false, true};

}  // namespace

const FileSystem& file_system_of_magic(unsigned long magic) {
  for (const FileSystem& row : kFileSystems)
    if (row.magic == magic) return row;
  return kUnknown;
}

}  // namespace penstock::store

// The memory store keeps the same promises as one on disk.
#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace penstock::store {
namespace {

constexpr OpenOptions kReadWrite = {.read = true, .write = true, .create = true};

Status put(File& file, Offset offset, std::string text) {
  Transfer transfer{offset, reinterpret_cast<std::byte*>(text.data()), text.size()};
  return file.write(std::span(&transfer, 1));
}

std::string get(File& file, Offset offset, std::size_t length) {
  std::string text(length, '#');
  Transfer transfer{offset, reinterpret_cast<std::byte*>(text.data()), length};
  EXPECT_TRUE(file.read(std::span(&transfer, 1)).ok());
  text.resize(transfer.done);
  return text;
}

TEST(MemoryStore, FilesAreFoundByName) {
  MemoryStore store;
  EXPECT_EQ(store.open("a", {}).status().code(), Code::kNoSuchFile);
  const auto first = store.open("a", kReadWrite);
  ASSERT_TRUE(put(**first, 0, "hello").ok());
  const auto second = store.open("a", {});
  EXPECT_EQ(get(**second, 0, 9), "hello");
  EXPECT_EQ(store.open("a", {.create = true, .exclusive = true}).status().code(), Code::kFileExists);
  EXPECT_TRUE(store.remove("a").ok());
  EXPECT_EQ(store.remove("a").code(), Code::kNoSuchFile);
  EXPECT_EQ(get(**second, 1, 9), "ello") << "an open file outlives its name";
  EXPECT_EQ(*(*store.open("a", kReadWrite))->size(), 0);
}

TEST(MemoryStore, SizesFollowTheWrites) {
  MemoryStore store;
  const auto file = std::move(*store.open("a", kReadWrite));
  ASSERT_TRUE(put(*file, 6000, "x").ok());
  EXPECT_EQ(*file->size(), 6001);
  EXPECT_EQ(get(*file, 5998, 10), std::string("\0\0x", 3));
  EXPECT_EQ(get(*file, 7000, 10), "");
  ASSERT_TRUE(file->grow(10).ok());
  EXPECT_EQ(*file->size(), 6001);
  ASSERT_TRUE(file->resize(3).ok());
  ASSERT_TRUE(file->resize(6001).ok());
  EXPECT_EQ(get(*file, 6000, 1), std::string(1, '\0')) << "what was cut off does not come back";
  ASSERT_TRUE(put(*file, 0, "").ok());
  EXPECT_EQ(file->resize(-1).code(), Code::kArgument);
}

TEST(MemoryStore, FullIsAnError) {
  MemoryStore store({.file_bytes_max = 8192});
  const auto file = std::move(*store.open("a", kReadWrite));
  EXPECT_TRUE(put(*file, 8190, "xy").ok());
  EXPECT_EQ(put(*file, 8191, "xy").code(), Code::kNoSpace);
  EXPECT_EQ(file->grow(8193).code(), Code::kNoSpace);
  EXPECT_EQ(put(*file, INT64_MAX, "x").code(), Code::kNoSpace);
  EXPECT_EQ(*file->size(), 8192);
}

TEST(MemoryStore, MappingsStayWhileTheFileGrows) {
  MemoryStore store({.can_map = true});
  const auto file = std::move(*store.open("a", kReadWrite));
  ASSERT_TRUE(file->grow(100).ok());
  auto mapping = file->map(10, 90, true);
  ASSERT_TRUE(mapping.ok());
  ASSERT_TRUE(put(*file, 50'000'000, "x").ok());
  std::memcpy((*mapping)->data() + 5, "abc", 3);
  EXPECT_EQ(get(*file, 15, 3), "abc");
  ASSERT_TRUE((*mapping)->populate(10, 90).ok());
  ASSERT_TRUE(file->resize(50).ok());
  EXPECT_EQ((*mapping)->populate(10, 90).code(), Code::kIo);
  EXPECT_EQ(MemoryStore().open("b", kReadWrite).value()->map(0, 1, true).status().code(), Code::kUnsupported);
}

TEST(MemoryStore, LocksExcludeEachOther) {
  MemoryStore store;
  const auto a = std::move(*store.open("a", kReadWrite));
  const auto b = std::move(*store.open("a", kReadWrite));
  ASSERT_TRUE(a->lock_range(0, 10, false).ok());
  ASSERT_TRUE(b->lock_range(5, 10, false).ok());
  EXPECT_TRUE(*b->range_is_locked(0, 1));
  EXPECT_FALSE(*b->range_is_locked(10, 5));
  ASSERT_TRUE(a->close().ok());
  EXPECT_FALSE(*b->range_is_locked(0, 1));
  std::int64_t counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      const auto mine = std::move(*store.open("a", kReadWrite));
      for (int round = 0; round < 300; ++round) {
        ASSERT_TRUE(mine->lock_range(100, 10, true).ok());
        ++counter;
        ASSERT_TRUE(mine->unlock_range(100, 10).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 900);
}

}  // namespace
}  // namespace penstock::store

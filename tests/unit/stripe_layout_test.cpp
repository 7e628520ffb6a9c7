// Layouts of Lustre files: images of the extended attribute made by hand, cut short, changed at random; and layouts as text.
#include "store/posix/stripe_layout.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "store/posix/posix_store.h"

namespace penstock::store {
namespace {

using Image = std::vector<std::byte>;

/// Appends `number` in little-endian order.
template <typename Number>
void put(Image& image, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) image.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff));
}

struct Plain {
  bool v3 = false;
  std::uint32_t pattern = 1;
  std::uint32_t stripe_bytes = 1 << 20;
  std::uint16_t count = 0;
  std::vector<std::uint32_t> targets;
};

Image image_of(const Plain& plain) {
  Image image;
  put(image, plain.v3 ? 0x0BD30BD0U : 0x0BD10BD0U);
  put(image, plain.pattern);
  put(image, std::uint64_t{0x1234});
  put(image, std::uint64_t{0x5678});
  put(image, plain.stripe_bytes);
  put(image, plain.count);
  put(image, std::uint16_t{7});
  if (plain.v3)
    for (const char letter : {'f', 'l', 'a', 's', 'h', '\0', '\0', '\0', '\0', '\0', '\0', '\0', '\0', '\0', '\0', '\0'}) put(image, letter);
  for (const std::uint32_t target : plain.targets) {
    put(image, std::uint64_t{0xabc});
    put(image, std::uint64_t{0});
    put(image, std::uint32_t{0});
    put(image, target);
  }
  return image;
}

struct Entry {
  std::uint32_t flags = 0x10;
  std::uint64_t first = 0;
  std::uint64_t end = UINT64_MAX;
  Image plain;
};

Image image_of(const std::vector<Entry>& entries) {
  std::uint32_t at = 32 + 48 * static_cast<std::uint32_t>(entries.size());
  std::uint32_t size = at;
  for (const Entry& entry : entries) size += static_cast<std::uint32_t>(entry.plain.size());
  Image image;
  put(image, 0x0BD60BD0U);
  put(image, size);
  put(image, std::uint32_t{3});
  put(image, std::uint16_t{0});
  put(image, static_cast<std::uint16_t>(entries.size()));
  put(image, std::uint64_t{0});
  put(image, std::uint64_t{0});
  for (const Entry& entry : entries) {
    put(image, std::uint32_t{1});
    put(image, entry.flags);
    put(image, entry.first);
    put(image, entry.end);
    put(image, at);
    put(image, static_cast<std::uint32_t>(entry.plain.size()));
    put(image, std::uint64_t{0});
    put(image, std::uint64_t{0});
    at += static_cast<std::uint32_t>(entry.plain.size());
  }
  for (const Entry& entry : entries) image.insert(image.end(), entry.plain.begin(), entry.plain.end());
  return image;
}

constexpr std::uint64_t kMiB = 1 << 20;

const Plain kFour{.count = 4, .targets = {3, 0, 1, 2}};
const Plain kEight{.v3 = true, .pattern = 0x201, .stripe_bytes = 4 << 20, .count = 8, .targets = {0, 1, 2, 3, 0, 1, 2, 3}};

/// Data with the metadata up to 1 MiB, one stripe up to 64 MiB, then four on targets that are not chosen yet.
Image progressive() {
  return image_of({{.first = 0, .end = kMiB, .plain = image_of(Plain{.pattern = 0x100})},
                   {.first = kMiB, .end = 64 * kMiB, .plain = image_of(Plain{.count = 1, .targets = {5}})},
                   {.flags = 0, .first = 64 * kMiB, .plain = image_of(Plain{.stripe_bytes = 4 << 20, .count = 4})}});
}

StripeLayout parsed(const Image& image) {
  Result<StripeLayout> layout = parse_layout(image);
  EXPECT_TRUE(layout.ok()) << layout.status().text();
  return layout.ok() ? *layout : StripeLayout();
}

TEST(StripeLayout, PlainOfBothVersions) {
  const StripeLayout four = parsed(image_of(kFour));
  ASSERT_EQ(four.parts.size(), 1U);
  EXPECT_EQ(four.parts[0], (StripedPart{.stripe_bytes = 1 << 20, .stripe_count = 4, .targets = {3, 0, 1, 2}}));
  const StripeLayout eight = parsed(image_of(kEight));
  ASSERT_EQ(eight.parts.size(), 1U);
  EXPECT_EQ(eight.parts[0], (StripedPart{.stripe_bytes = 4 << 20, .stripe_count = 8, .targets = {0, 1, 2, 3, 0, 1, 2, 3}, .overstriped = true}));
  EXPECT_EQ(target_count(eight.parts[0]), 4);
}

TEST(StripeLayout, ProgressiveFileWithThreeComponents) {
  const StripeLayout layout = parsed(progressive());
  ASSERT_EQ(layout.parts.size(), 3U);
  EXPECT_EQ(layout.parts[0], (StripedPart{.end = kMiB}));
  EXPECT_EQ(layout.parts[1], (StripedPart{.first = kMiB, .end = 64 * kMiB, .stripe_bytes = kMiB, .stripe_count = 1, .targets = {5}}));
  EXPECT_EQ(layout.parts[2], (StripedPart{.first = 64 * kMiB, .stripe_bytes = 4 * kMiB, .stripe_count = 4}));
  EXPECT_EQ(target_count(layout.parts[2]), 4);
  EXPECT_EQ(part_for(layout, 0, INT64_MAX), &layout.parts[2]);
  EXPECT_EQ(part_for(layout, 0, 10 * kMiB), &layout.parts[1]);
  EXPECT_EQ(part_for(layout, 0, 128 * kMiB), &layout.parts[2]) << "64 MiB lie there, 63 in the part before";
  EXPECT_EQ(part_for(layout, 0, kMiB), nullptr) << "all of it lies with the metadata";
}

TEST(StripeLayout, WhatDoesNotCount) {
  const Image plain = image_of(kFour);
  const StripeLayout mirrors = parsed(image_of({{.flags = 0x11, .plain = plain}, {.plain = image_of(kEight)}, {.plain = plain}}));
  ASSERT_EQ(mirrors.parts.size(), 2U) << "the first one is stale";
  EXPECT_EQ(part_for(mirrors, 0, INT64_MAX)->stripe_count, 8) << "the first of the two that are as large";
  EXPECT_EQ(parsed(image_of({{.flags = 0x40, .plain = plain}})).parts.size(), 0U);
  Image foreign;
  put(foreign, 0x0BD70BD0U);
  EXPECT_EQ(parsed(image_of({{.plain = foreign}, {.plain = plain}})).parts.size(), 1U);
  const StripeLayout released = parsed(image_of(Plain{.pattern = 0x80000001, .count = 4}));
  EXPECT_EQ(released.parts[0], (StripedPart{.stripe_bytes = 1 << 20, .stripe_count = 4}));
  const StripeLayout all = parsed(image_of({{.flags = 0, .plain = image_of(Plain{.count = 0xffff})}}));
  EXPECT_EQ(all.parts[0].stripe_count, 0);
  EXPECT_EQ(part_for(all, 0, INT64_MAX), nullptr);
}

TEST(StripeLayout, WhatIsWrongIsRefused) {
  const auto refused = [](const Image& image) { return parse_layout(image).status().code() == Code::kIo; };
  EXPECT_TRUE(refused({}));
  Image magic = image_of(kFour);
  magic[0] = std::byte{0xd1};
  EXPECT_TRUE(refused(magic));
  EXPECT_TRUE(refused(image_of(Plain{.stripe_bytes = 0, .count = 1, .targets = {1}})));
  EXPECT_TRUE(refused(image_of(Plain{.count = 0})));
  EXPECT_TRUE(refused(image_of(Plain{.count = 5, .targets = {1, 2, 3, 4}})));
  const Image plain = image_of(kFour);
  EXPECT_TRUE(refused(image_of({{.first = 5, .end = 5, .plain = plain}})));
  EXPECT_TRUE(refused(image_of({{.first = 0, .end = UINT64_MAX - 1, .plain = plain}})));
  EXPECT_TRUE(refused(image_of({{.first = UINT64_MAX - 1, .plain = plain}})));
  Image composite = image_of({{.plain = plain}});
  for (const std::uint32_t offset : {0U, 32U, 79U, 0xffffffffU}) {
    std::memcpy(composite.data() + 32 + 24, &offset, sizeof offset);
    EXPECT_TRUE(refused(composite)) << offset;
  }
  composite = image_of({{.plain = plain}});
  for (const std::uint32_t size : {0xffffffffU, static_cast<std::uint32_t>(plain.size()) + 1, 31U}) {
    std::memcpy(composite.data() + 32 + 28, &size, sizeof size);
    EXPECT_TRUE(refused(composite)) << size;
  }
}

TEST(StripeLayout, CutShortAnywhereIsRefused) {
  for (const Image& whole : {image_of(kFour), image_of(kEight), progressive(), image_of({{.plain = image_of(kEight)}, {.plain = image_of(kFour)}})})
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // A buffer of its own, so that a sanitizer sees a read behind its end.
      const Image cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_FALSE(parse_layout(cut).ok()) << size << " of " << whole.size();
    }
}

TEST(StripeLayout, ChangedAtRandomItIsRefusedOrMakesSense) {
  std::mt19937 random(20261121);
  for (const Image& whole : {image_of(kFour), image_of(kEight), progressive()})
    for (int i = 0; i < 20000; ++i) {
      Image changed = whole;
      for (int changes = static_cast<int>(random() % 4) + 1; changes > 0; --changes) changed[random() % changed.size()] = static_cast<std::byte>(random());
      const Result<StripeLayout> layout = parse_layout(changed);
      if (!layout.ok()) continue;
      for (const StripedPart& part : layout->parts) {
        ASSERT_TRUE(0 <= part.first && part.first < part.end);
        ASSERT_TRUE(part.stripe_count >= 0 && part.stripe_bytes >= 0);
        ASSERT_TRUE(part.targets.empty() || part.targets.size() == static_cast<std::size_t>(part.stripe_count));
      }
      if (const StripedPart* part = part_for(*layout, 0, INT64_MAX)) {
        ASSERT_TRUE(part->stripe_bytes > 0 && 0 < target_count(*part) && target_count(*part) <= part->stripe_count);
      }
    }
}

TEST(StripeLayout, AsText) {
  const auto of = [](std::string_view text) {
    Result<StripeLayout> layout = layout_of_text(text);
    EXPECT_TRUE(layout.ok()) << layout.status().text();
    return layout.ok() ? *layout : StripeLayout();
  };
  EXPECT_EQ(of("1M:4").parts, (std::vector<StripedPart>{{.stripe_bytes = kMiB, .stripe_count = 4, .targets = {0, 1, 2, 3}}}));
  EXPECT_EQ(of("0-64m:65536:1,64m-eof:4M:4/2").parts,
            (std::vector<StripedPart>{{.end = 64 << 20, .stripe_bytes = 65536, .stripe_count = 1, .targets = {0}},
                                      {.first = 64 << 20, .stripe_bytes = 4 << 20, .stripe_count = 4, .targets = {0, 1, 0, 1}, .overstriped = true}}));
  for (const char* wrong : {"", ":", "1M", "1M:", "1M:0", "0:4", "-1:4", "1M:4/5", "1M:4/0", "4-4:1M:1", "5-4:1M:1", "0-:1M:1", "1M:4,", "1M:4,,", "1T:4", "1M:4x",
                            "9999999999999999999:4", "9999999999g:1", "8g:1", "1M:65532", "0-eof:1M", "a:b:c:d"})
    EXPECT_EQ(layout_of_text(wrong).status().code(), Code::kArgument) << wrong;
}

TEST(StripeLayout, WishesAsTheFileSystemTakesThem) {
  EXPECT_FALSE(LayoutWish().any());
  EXPECT_TRUE(LayoutWish{.stripe_count = -1}.any() && LayoutWish{.first_target = 0}.any() && LayoutWish{.stripe_bytes = 1}.any());
  const auto message = message_of({.stripe_bytes = 4 << 20, .stripe_count = 7, .first_target = 2});
  std::uint32_t magic = 0, bytes = 0;
  std::uint16_t count = 0, target = 0;
  const auto read = [&] {
    std::memcpy(&magic, message.data(), 4);
    std::memcpy(&bytes, message.data() + 24, 4);
    std::memcpy(&count, message.data() + 28, 2);
    std::memcpy(&target, message.data() + 30, 2);
  };
  read();
  EXPECT_EQ(magic, 0x0BD10BD0U);
  EXPECT_EQ(bytes, 4U << 20);
  EXPECT_EQ(count, 7);
  EXPECT_EQ(target, 2);
  const auto likes = message_of({.stripe_count = -1});
  std::memcpy(&count, likes.data() + 28, 2);
  std::memcpy(&target, likes.data() + 30, 2);
  EXPECT_EQ(count, 0xffff);
  EXPECT_EQ(target, 0xffff);
  EXPECT_EQ(flags_to_set_layout("/dev/shm/file") | flags_to_set_layout("file") | flags_to_set_layout("/no/such/directory/file"), 0);
}

TEST(StripeLayout, AFileIsSaidToHaveIt) {
  char name[] = "stripe_layout_test.XXXXXX";
  const int descriptor = mkstemp(name);
  ASSERT_GE(descriptor, 0);
  EXPECT_FALSE(read_layout(descriptor).has_value()) << "there is no Lustre here";
  const StripeLayout layout = *layout_of_text("0-4k:1k:1,4k-eof:1m:6/3");
  PosixStore store(layout);
  const auto traits = [&](bool write) {
    Result<std::unique_ptr<File>> file = store.open(name, {.write = write});
    EXPECT_TRUE(file.ok());
    return file.ok() ? (*file)->traits() : Traits();
  };
  EXPECT_EQ(traits(true).stripe_bytes, 1 << 20);
  EXPECT_EQ(traits(true).stripe_count, 6);
  EXPECT_EQ(traits(true).target_count, 3);
  EXPECT_EQ(traits(false).stripe_count, 6) << "nothing is there that could say more";
  ASSERT_EQ(ftruncate(descriptor, 5000), 0);
  EXPECT_EQ(traits(false).stripe_bytes, 1 << 10) << "4096 bytes of it lie in the first part";
  EXPECT_EQ(traits(true).stripe_count, 6) << "what is written now may lie anywhere";
  ::close(descriptor);
  EXPECT_EQ(PosixStore().open(name, {.write = true, .create = true, .stripe_bytes = 65536, .stripe_count = 2})->get()->traits().stripe_bytes, 0)
      << "a wish means nothing where files are not striped";
  ::unlink(name);
}

}  // namespace
}  // namespace penstock::store

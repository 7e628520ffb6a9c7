// The fault store strikes the call it was told to, and the trace store counts every one.
#include "store/fault/fault_store.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "store/memory/memory_store.h"
#include "store/trace/trace_store.h"

namespace penstock::store {
namespace {

constexpr OpenOptions kReadWrite = {.read = true, .write = true, .create = true};

std::shared_ptr<FaultPlan> plan_of(std::string_view text) {
  Result<std::vector<FaultRule>> rules = parse_fault_rules(text);
  EXPECT_TRUE(rules.ok()) << rules.status().text();
  return std::make_shared<FaultPlan>(*rules);
}

struct Fixture {
  explicit Fixture(std::string_view rules) : plan(plan_of(rules)), store(memory, plan) {
    file = std::move(*store.open("a", kReadWrite));
  }
  MemoryStore memory{{.can_map = true}};
  std::shared_ptr<FaultPlan> plan;
  FaultStore store;
  std::unique_ptr<File> file;
  std::byte bytes[8] = {};
  Transfer batch[2] = {{0, bytes, 4}, {10, bytes + 4, 4}};
};

TEST(FaultRules, AreParsed) {
  const auto rules = parse_fault_rules("write:3:ENOSPC:short;any:5+:EIO:rank=2,read:1:end,sync:2:117");
  ASSERT_TRUE(rules.ok()) << rules.status().text();
  ASSERT_EQ(rules->size(), 4u);
  EXPECT_EQ((*rules)[0].call, Call::kWrite);
  EXPECT_EQ((*rules)[0].number, 3);
  EXPECT_EQ((*rules)[0].error, ENOSPC);
  EXPECT_TRUE((*rules)[0].half);
  EXPECT_FALSE((*rules)[0].from_then_on);
  EXPECT_EQ((*rules)[1].call, Call::kAny);
  EXPECT_TRUE((*rules)[1].from_then_on);
  EXPECT_EQ((*rules)[1].rank, 2);
  EXPECT_EQ((*rules)[2].error, 0);
  EXPECT_EQ((*rules)[3].error, 117);
  EXPECT_TRUE(parse_fault_rules("")->empty());
}

TEST(FaultRules, ThatDoNotParseAreNamed) {
  for (const char* text :
       {"write", "write:1", "write:0:EIO", "write:x:EIO", "write:1:EWHAT", "scribble:1:EIO", "write:1:end",
        "write:1:EIO:later", "sync:1:EIO:short", "write:1:EIO:rank=-1", "write:1:-5", "any:1:EIO,write:1"}) {
    const auto rules = parse_fault_rules(text);
    EXPECT_EQ(rules.status().code(), Code::kInfo) << text;
    EXPECT_NE(rules.status().text().find(text[0] == 'a' ? "'write:1'" : text), std::string_view::npos)
        << rules.status().text();
  }
}

TEST(FaultStore, StrikesTheNumberedCallOnly) {
  Fixture f("write:2:EDQUOT");
  EXPECT_TRUE(f.file->write(f.batch).ok());
  EXPECT_EQ(f.file->write(f.batch).code(), Code::kQuota);
  EXPECT_EQ(f.batch[0].done, 0u);
  EXPECT_TRUE(f.file->write(f.batch).ok());
  EXPECT_EQ(f.plan->struck(), 1);
  EXPECT_EQ(f.plan->calls(Call::kWrite), 3);
  EXPECT_EQ(f.plan->calls(Call::kAny), 4);
}

TEST(FaultStore, StrikesFromThenOn) {
  Fixture f("any:3+:EIO");
  EXPECT_TRUE(f.file->write(f.batch).ok());
  EXPECT_EQ(f.file->size().status().code(), Code::kIo);
  EXPECT_EQ(f.file->sync().code(), Code::kIo);
  EXPECT_EQ(f.file->close().code(), Code::kIo);
  EXPECT_TRUE(f.file->close().ok()) << "closing again says nothing";
}

TEST(FaultStore, MovesHalfWhenShort) {
  Fixture f("write:1:ENOSPC:short;read:1:end");
  for (std::size_t i = 0; i < 8; ++i) f.bytes[i] = static_cast<std::byte>(i + 1);
  EXPECT_EQ(f.file->write(f.batch).code(), Code::kNoSpace);
  EXPECT_EQ(f.batch[0].done, 4u);
  EXPECT_EQ(f.batch[1].done, 0u);
  EXPECT_EQ(*f.file->size(), 4);
  std::byte back[4] = {};
  Transfer read{0, back, 4};
  EXPECT_TRUE(f.file->read(std::span(&read, 1)).ok());
  EXPECT_EQ(read.done, 2u);
  EXPECT_EQ(back[1], std::byte{2});
  EXPECT_EQ(back[2], std::byte{0});
}

TEST(FaultStore, StrikesEveryKind) {
  for (int kind = 0; kind < kCallCount; ++kind) {
    const std::string call(name(static_cast<Call>(kind)));
    if (call == "open") {
      MemoryStore memory;
      FaultStore store(memory, plan_of("open:1:EMFILE"));
      EXPECT_EQ(store.open("a", kReadWrite).status().system_errno(), EMFILE);
      EXPECT_TRUE(store.open("a", kReadWrite).ok());
      continue;
    }
    Fixture f(call + ":1:EROFS");
    ASSERT_TRUE(f.file->write(f.batch).ok() || call == "write");
    int failures = call == "write";
    const auto note = [&](const Status& status) {
      EXPECT_TRUE(status.ok() || status.code() == Code::kReadOnly) << status.text();
      failures += !status.ok();
    };
    note(f.file->read(f.batch));
    note(f.file->size().status());
    note(f.file->resize(20));
    note(f.file->grow(30));
    note(f.file->preallocate(40));
    auto mapping = f.file->map(0, 10, true);
    note(mapping.status());
    if (mapping.ok()) note((*mapping)->populate(0, 10));
    note(f.file->sync());
    note(f.file->lock_range(0, 1, true));
    note(f.store.remove("a"));
    note(f.file->close());
    EXPECT_EQ(failures, 1) << call;
    EXPECT_EQ(f.plan->struck(), 1) << call;
  }
}

TEST(TraceStore, CountsCallsTransfersAndBytes) {
  MemoryStore memory({.can_map = true});
  const auto counts = std::make_shared<StoreCounts>();
  TraceStore store(memory, counts);
  EXPECT_FALSE(store.open("a", {}).ok());
  const auto file = std::move(*store.open("a", kReadWrite));
  std::byte bytes[8] = {};
  Transfer batch[2] = {{0, bytes, 4}, {10, bytes + 4, 4}};
  ASSERT_TRUE(file->write(batch).ok());
  batch[1].offset = 12;
  ASSERT_TRUE(file->read(batch).ok());
  auto mapping = file->map(0, 10, true);
  ASSERT_TRUE((*mapping)->populate(0, 6).ok());
  ASSERT_TRUE(file->lock_range(0, 1, true).ok());
  ASSERT_TRUE(file->unlock_range(0, 1).ok());
  EXPECT_EQ(counts->open.calls, 2);
  EXPECT_EQ(counts->open.failures, 1);
  EXPECT_EQ(counts->write.calls, 1);
  EXPECT_EQ(counts->write.transfers, 2);
  EXPECT_EQ(counts->write.bytes, 8);
  EXPECT_EQ(counts->read.bytes, 6);
  EXPECT_EQ(counts->map.bytes, 10);
  EXPECT_EQ(counts->populate.bytes, 6);
  EXPECT_EQ(counts->lock.calls, 1);
  EXPECT_EQ(counts->unlock.calls, 1);
}

}  // namespace
}  // namespace penstock::store

// The cost model term by term, with figures that leave one term standing.  Which way is least for whom: choose_test.cpp.
#include "model/predict.h"

#include <gtest/gtest.h>

namespace penstock::model {
namespace {

constexpr double kRandomCall = 1e-3;
constexpr double kPerByte = 1e-8;

/// A device without a page cache, and nothing else that takes time.
Figures device_of(double ranks, double streams) {
  Figures figures{};
  for (Storage* storage : {&figures.storage_read, &figures.storage_write}) {
    storage->device_call = kRandomCall / 10;
    storage->device_random_call = kRandomCall;
    storage->device_per_byte = kPerByte;
    storage->device_ranks = ranks;
    storage->device_streams = streams;
    storage->cached_ranks = 1;
  }
  return figures;
}

/// Each of `ranks` has `pieces` of so many bytes, all over what they span together, half of which nobody has.
Workload work_of(int ranks, double pieces, double bytes) {
  Workload work;
  work.ranks = ranks;
  work.processors = ranks;
  work.pieces = pieces * ranks;
  work.bytes = work.pieces * bytes;
  work.span = 2 * work.bytes;
  work.rank_span = work.span;
  return work;
}

double independent(const Figures& figures, const Workload& work) { return predict(figures, work, {.way = Way::kIndependent}).file; }

TEST(Predict, RequestsWaitAtTheSameTimeAsFarAsTheDeviceWorksOnThem) {
  const double alone = 100 * (kRandomCall + 100 * kPerByte);
  EXPECT_DOUBLE_EQ(independent(device_of(1, 1), work_of(1, 100, 100)), alone);
  EXPECT_DOUBLE_EQ(independent(device_of(1, 1), work_of(8, 100, 100)), 8 * alone) << "one head";
  EXPECT_DOUBLE_EQ(independent(device_of(4, 1), work_of(4, 100, 100)), alone);
  EXPECT_DOUBLE_EQ(independent(device_of(4, 1), work_of(8, 100, 100)), 2 * alone);
  EXPECT_DOUBLE_EQ(independent(device_of(100, 100), work_of(8, 100, 100)), alone) << "no more than there are ranks";
}

TEST(Predict, OneHeadMovesNoBytesOnItsWay) {
  const Workload work = work_of(4, 100, 4096);
  const double bytes = work.bytes * kPerByte;
  EXPECT_DOUBLE_EQ(predict(device_of(1.25, 1), work, {.way = Way::kIndependent}).file, 400 * kRandomCall / 1.25 + bytes) << "its ways are shorter, no more";
}

TEST(Predict, BytesOfAllGetThroughAsStreamsPermit) {
  constexpr double kMebibyte = 1 << 20;
  const double bytes_of_eight = 8 * 4 * kMebibyte * kPerByte;
  EXPECT_DOUBLE_EQ(independent(device_of(100, 1), work_of(8, 4, kMebibyte)), bytes_of_eight) << "however many requests it works on";
  EXPECT_DOUBLE_EQ(independent(device_of(100, 2), work_of(8, 4, kMebibyte)), bytes_of_eight / 2);
  EXPECT_DOUBLE_EQ(independent(device_of(8, 8), work_of(8, 4, kMebibyte)), 4 * (kRandomCall + kMebibyte * kPerByte)) << "each as fast as alone";
}

TEST(Predict, WhatGoesOnIsOnlyOneRanksOwn) {
  const double bytes = 100 * 100 * kPerByte;
  Workload in_order = work_of(1, 100, 100);
  in_order.span = in_order.rank_span = in_order.bytes;
  EXPECT_DOUBLE_EQ(independent(device_of(1, 1), in_order), kRandomCall + 99 * kRandomCall / 10 + bytes) << "but for the first request";
  in_order.ranks = 2;
  EXPECT_DOUBLE_EQ(independent(device_of(1, 1), in_order), 100 * kRandomCall + bytes) << "two that take turns each begin elsewhere";
}

TEST(Predict, SievedReadsOfAllMoveTheSpanForEachOfThem) {
  const Workload work = work_of(4, 1000, 256);
  EXPECT_DOUBLE_EQ(predict(device_of(100, 1), work, {.way = Way::kSieved}).file, 4 * work.rank_span * kPerByte) << "and wait for its one request at the same time";
}

TEST(Predict, ATeamReadsTogetherWhatTheDeviceWorksOnAtOnce) {
  Figures figures = device_of(1.2, 1);
  EXPECT_EQ(readers_most(figures), 1) << "one head";
  figures.storage_read.device_ranks = 2.9;
  EXPECT_EQ(readers_most(figures), 2);
  figures.storage_read.device_ranks = 1e6;
  EXPECT_EQ(readers_most(figures), 4);
  figures.file.cached = 1;
  figures.storage_read.device_ranks = 1;
  EXPECT_EQ(readers_most(figures), 4) << "copies out of the page cache";

  // One window of 1 MiB, by one team of four.
  constexpr double kMebibyte = 1 << 20;
  Workload work = work_of(4, 64, 4096);
  work.span = work.rank_span = work.bytes;
  const Candidate team{.way = Way::kTwoLayer, .local_per_node = 1, .aggregators = 1, .window = kMebibyte};
  EXPECT_DOUBLE_EQ(predict(device_of(1.2, 1), work, team).file, kRandomCall + kMebibyte * kPerByte);
  EXPECT_DOUBLE_EQ(predict(device_of(100, 100), work, team).file, kRandomCall + kMebibyte * kPerByte / 4);
  work.bytes = work.span = work.rank_span = 64.0 * 1024;
  EXPECT_DOUBLE_EQ(predict(device_of(100, 100), work, team).file, kRandomCall + work.bytes * kPerByte) << "too little to share";
}

TEST(Predict, MessagesOfANodeWaitForTheAggregatorThatWrites) {
  Figures figures = device_of(100, 100);
  figures.network_inside.per_byte = kPerByte / 10;
  figures.network_between.per_byte = kPerByte / 10;
  Workload work = work_of(2, 1024, 4096);
  work.span = work.rank_span = work.bytes;
  work.processors = 2;
  const Candidate alone{.way = Way::kTwoPhase, .local_per_node = 0, .aggregators = 1, .window = work.bytes / 4};
  const double messages = work.bytes / 2 * kPerByte / 10;
  EXPECT_DOUBLE_EQ(predict(figures, work, alone).communicate, messages / 4) << "while the next window is read";
  work.processors = 1;
  EXPECT_DOUBLE_EQ(predict(figures, work, alone).communicate, messages / 4) << "a device needs no processor";
  work.write = true;
  EXPECT_DOUBLE_EQ(predict(figures, work, alone).communicate, messages);
  work.nodes = 2;
  EXPECT_DOUBLE_EQ(predict(figures, work, alone).communicate, messages / 4) << "a network does it by itself";
}

TEST(Predict, AFilesFirstCallMakesTheMemoryOfItsWindows) {
  constexpr double kMebibyte = 1 << 20;
  Figures figures = device_of(100, 100);
  figures.memory.copy_per_byte = 1e-9;
  figures.memory.fault_new = 1e-6;
  Workload work = work_of(4, 1024, 4096);
  work.write = true;
  work.span = work.rank_span = work.bytes;
  const auto more = [&](const Candidate& candidate) {
    Workload first = work;
    first.anew = true;
    return predict(figures, first, candidate).sum() - predict(figures, work, candidate).sum();
  };
  const Candidate alone{.way = Way::kTwoPhase, .local_per_node = 0, .aggregators = 1, .window = 2 * kMebibyte};
  EXPECT_NEAR(more(alone), 2 * kMebibyte * 1e-9, 1e-9) << "the first window is zeroed";
  const Candidate team{.way = Way::kTwoLayer, .local_per_node = 1, .aggregators = 1, .window = 2 * kMebibyte};
  EXPECT_NEAR(more(team), 3 * 512 * 1e-6, 1e-9) << "pages of three windows in shared memory";
  work.write = false;
  EXPECT_EQ(more(alone), 0) << "while the device works";
}

}  // namespace
}  // namespace penstock::model

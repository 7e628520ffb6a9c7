// The paper's own numbers by its equations: Tables V and VI cell by cell, each with the assumption under which it comes out to the
// printed digits, its errors, and what it says of Figure 11.
//
// The paper states: 16 ranks, 16 GB (its estimates take them as 16384 MB), a collective buffer of 16 MB, one aggregator per node,
// tau = non-aggregators over ranks, iter = total size over buffer size, bdw_seq for collective and bdw_ran for individual I/O.
// That gives the individual cells of HDD and SSD, and no other.  By a search over iterations, message sizes, tau, MB and MiB, both
// bandwidths, and rounding or truncation, the others come out so:
//   all printed figures      are truncated to two decimals, not rounded (160.848 is printed 160.84)
//   individual, NVM          with bdw_seq, not bdw_ran (145.88, not 148.25)
//   collective, Table VI     tau = 1, 64 iterations of a message of 32 MB: the data over the 8 ranks of a node, in the buffers of
//                            both aggregators
//   collective, Table V      tau = 1, 256 iterations of 16 MB: the data over the 4 aggregators; SSD and NVM when the part of Ts
//                            is rounded to three digits and that of Tw to four before they are added (1.38 + 137.2); unrounded,
//                            they come out 0.02 s larger. 254 iterations' Ts with 256 iterations' Tw, unrounded, do as well.
//   collective, Table V, HDD none. 240 iterations, 15/16 of the others, give 411.88 where 411.78 is printed.
#include "model/paper.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

namespace penstock::model::paper {
namespace {

constexpr double kTotalMb = 16384;
constexpr double kBufferMb = 16;

Platform platform(double sequential, double random) {
  return {.startup_seconds = 5.39e-3,
          .transfer_seconds_per_mb = 3.35e-2,
          .sequential_mb_per_second = sequential,
          .random_mb_per_second = random};
}

/// Table IV.
const Platform kHdd = platform(58.11, 26.72);
const Platform kSsd = platform(110.98, 101.86);
const Platform kNvm = platform(112.31, 110.51);
const std::array kDevices = {kHdd, kSsd, kNvm};

/// In hundredths of a second, as the paper cuts them off.
long printed(double seconds) { return static_cast<long>(std::floor(seconds * 100)); }

double significant(double value, int digits) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) + 1 - digits);
  return std::round(value / unit) * unit;
}

TEST(PaperModel, SharesAndIterations) {
  EXPECT_DOUBLE_EQ(estimated_shuffled_share(8, 2), 0.75);  // the paper's example
  EXPECT_DOUBLE_EQ(estimated_shuffled_share(16, 4), 0.75);
  EXPECT_DOUBLE_EQ(estimated_shuffled_share(16, 2), 0.875);
  EXPECT_DOUBLE_EQ(estimated_shuffled_share(1, 1), 0);
  EXPECT_DOUBLE_EQ(estimated_shuffled_share(1, 0), 1);
  EXPECT_EQ(iterations_of(kTotalMb, kBufferMb), 1024);
  EXPECT_EQ(iterations_of(kTotalMb + 1, kBufferMb), 1025);
  EXPECT_EQ(iterations_of(1, kBufferMb), 1);
  EXPECT_EQ(iterations_of(0, kBufferMb), 0);
}

TEST(PaperModel, Equations) {
  const Platform rough = {.startup_seconds = 2,
                          .transfer_seconds_per_mb = 3,
                          .sequential_mb_per_second = 10,
                          .random_mb_per_second = 5,
                          .other_seconds = 100};
  const Workload workload = {.message_mb = 4, .iterations = 5, .shuffled_share = 0.5};
  EXPECT_DOUBLE_EQ(communication_seconds(rough, workload), 5 * (2 + 3 * 4 * 0.5));
  EXPECT_DOUBLE_EQ(file_seconds(20, 10), 2);
  EXPECT_DOUBLE_EQ(collective_seconds(rough, workload, 20), 40 + 2 + 100);
  EXPECT_DOUBLE_EQ(individual_seconds(rough, 20), 4 + 100);
}

TEST(PaperModel, IndividualCellsOfBothTables) {
  EXPECT_EQ(printed(individual_seconds(kHdd, kTotalMb)), 61317);
  EXPECT_EQ(printed(individual_seconds(kSsd, kTotalMb)), 16084);
  EXPECT_NE(printed(individual_seconds(kNvm, kTotalMb)), 14588);
  EXPECT_EQ(printed(file_seconds(kTotalMb, kNvm.sequential_mb_per_second)), 14588);
}

TEST(PaperModel, CollectiveCellsOfTableSix) {
  const Workload workload = {.message_mb = 32, .iterations = 64, .shuffled_share = 1};
  EXPECT_EQ(printed(collective_seconds(kHdd, workload, kTotalMb)), 35090);
  EXPECT_EQ(printed(collective_seconds(kSsd, workload, kTotalMb)), 21658);
  EXPECT_EQ(printed(collective_seconds(kNvm, workload, kTotalMb)), 21483);
}

TEST(PaperModel, CollectiveCellsOfTableFive) {
  const Workload starts = {.message_mb = 0, .iterations = 256, .shuffled_share = 1};
  const Workload whole = {.message_mb = 16, .iterations = 256, .shuffled_share = 1};
  const double of_starts = communication_seconds(kSsd, starts);
  const double of_data = communication_seconds(kSsd, whole) - of_starts;
  const double shuffle = significant(of_starts, 3) + significant(of_data, 4);
  EXPECT_NEAR(shuffle, 1.38 + 137.2, 1e-9);
  EXPECT_EQ(printed(shuffle + file_seconds(kTotalMb, kSsd.sequential_mb_per_second)), 28621);
  EXPECT_EQ(printed(shuffle + file_seconds(kTotalMb, kNvm.sequential_mb_per_second)), 28446);
  // Unrounded, the equation is 0.02 s above what is printed; two iterations' Ts fewer are the other way to the printed digits.
  EXPECT_EQ(printed(collective_seconds(kSsd, whole, kTotalMb)), 28622);
  EXPECT_EQ(printed(collective_seconds(kNvm, whole, kTotalMb)), 28447);
  EXPECT_EQ(printed(collective_seconds(kSsd, whole, kTotalMb) - 2 * kSsd.startup_seconds), 28621);
  EXPECT_EQ(printed(collective_seconds(kNvm, whole, kTotalMb) - 2 * kNvm.startup_seconds), 28446);
}

TEST(PaperModel, TheCellThatNothingExplains) {
  const Workload nearest = {.message_mb = 16, .iterations = 240, .shuffled_share = 1};
  EXPECT_EQ(printed(collective_seconds(kHdd, nearest, kTotalMb)), 41188) << "the paper prints 411.78";
  const Workload as_the_others = {.message_mb = 16, .iterations = 256, .shuffled_share = 1};
  EXPECT_EQ(printed(collective_seconds(kHdd, as_the_others, kTotalMb)), 42054);
}

TEST(PaperModel, TheStatedEstimateExplainsNoCollectiveCell) {
  const std::array<std::array<long, 3>, 2> as_printed = {{{41178, 28621, 28446}, {35090, 21658, 21483}}};
  for (std::size_t table = 0; table < 2; ++table) {
    const std::int64_t aggregators = table == 0 ? 4 : 2;
    for (const double messages : {1.0, 1.0 / static_cast<double>(aggregators)}) {
      const Workload stated = {.message_mb = kBufferMb,
                               .iterations = iterations_of(kTotalMb * messages, kBufferMb),
                               .shuffled_share = estimated_shuffled_share(16, aggregators)};
      for (std::size_t device = 0; device < 3; ++device) {
        const double seconds = collective_seconds(kDevices[device], stated, kTotalMb);
        EXPECT_GT(std::labs(printed(seconds) - as_printed[table][device]), 2000);
      }
    }
  }
}

struct Cell {
  double estimated;
  double measured;
  double error_percent;  ///< as printed in brackets
  double true_percent;   ///< of the two printed times
};

/// Tables V and VI, collective then individual, each HDD, SSD, NVM.  Two brackets are not what the times beside them give: 14.4
/// (17.3; it would be 14.4 if 248.54 s had been measured), and 3.2 (0.32, without its zero).
constexpr std::array kCells = {Cell{411.78, 385.86, 6.7, 6.72},    Cell{286.21, 277.46, 3.2, 3.15},
                               Cell{284.46, 242.54, 14.4, 17.28},  Cell{613.17, 593.04, 3.4, 3.39},
                               Cell{160.84, 146.50, 9.8, 9.79},    Cell{145.88, 146.35, 3.2, 0.32},
                               Cell{350.90, 354.59, 1.04, 1.04},   Cell{216.58, 217.74, 0.53, 0.53},
                               Cell{214.83, 213.01, 0.85, 0.85},   Cell{613.17, 580.32, 5.66, 5.66},
                               Cell{160.84, 146.40, 9.86, 9.86},   Cell{145.88, 146.55, 0.46, 0.46}};

TEST(PaperModel, ErrorsInBrackets) {
  double sum_printed = 0;
  double sum_true = 0;
  int differ = 0;
  for (const Cell& cell : kCells) {
    const double percent = 100 * std::abs(cell.estimated - cell.measured) / cell.measured;
    EXPECT_NEAR(percent, cell.true_percent, 0.005) << cell.estimated;
    sum_printed += cell.error_percent;
    sum_true += percent;
    differ += std::abs(percent - cell.error_percent) > 0.051 ? 1 : 0;
  }
  EXPECT_EQ(differ, 2);
  // The stated average is that of the brackets; the two mistakes in them nearly cancel.
  EXPECT_NEAR(sum_printed / 12, 4.93, 0.0051);
  EXPECT_NEAR(sum_true / 12, 4.92, 0.0051);
}

/// Figure 11: one iteration, 4 nodes of 4 ranks.  The four aggregators access a message each at the same time, so that the data of
/// an iteration are four messages: read literally, with one message as the numerator of equation 3, collective I/O would never pay
/// on the HDD either, which the paper says it does.
struct Tradeoff {
  double shuffle;
  double benefit;      ///< Tindividual - Tcollective, as the paper defines it
  double file_benefit; ///< the same without the shuffle
};

Tradeoff tradeoff(const Platform& device, double message_mb, double messages) {
  const Workload one = {.message_mb = message_mb, .iterations = 1, .shuffled_share = estimated_shuffled_share(16, 4)};
  const double total = messages * message_mb;
  const double shuffle = communication_seconds(device, one);
  const double benefit = individual_seconds(device, total) - collective_seconds(device, one, total);
  return {.shuffle = shuffle, .benefit = benefit, .file_benefit = benefit + shuffle};
}

constexpr std::array kMessagesMb = {1.0 / 32, 2.0, 16.0};

TEST(PaperModel, FigureElevenOfHdd) {
  EXPECT_GT(tradeoff(kHdd, kMessagesMb[0], 4).shuffle, tradeoff(kHdd, kMessagesMb[0], 4).benefit);
  EXPECT_LT(tradeoff(kHdd, kMessagesMb[1], 4).shuffle, tradeoff(kHdd, kMessagesMb[1], 4).benefit);
  EXPECT_LT(tradeoff(kHdd, kMessagesMb[2], 4).shuffle, tradeoff(kHdd, kMessagesMb[2], 4).benefit);
  for (const double message : kMessagesMb) EXPECT_LT(tradeoff(kHdd, message, 1).benefit, 0);
}

TEST(PaperModel, FigureElevenOfSsdAndNvm) {
  for (const Platform& device : {kSsd, kNvm}) {
    for (const double message : kMessagesMb) {
      EXPECT_GT(tradeoff(device, message, 4).shuffle, tradeoff(device, message, 4).benefit);
      EXPECT_GT(tradeoff(device, message, 4).shuffle, tradeoff(device, message, 4).file_benefit);
    }
  }
}

TEST(PaperModel, FigureElevenGrowsWithTheMessage) {
  for (const Platform& device : kDevices) {
    for (std::size_t i = 1; i < kMessagesMb.size(); ++i) {
      EXPECT_GT(tradeoff(device, kMessagesMb[i], 4).shuffle, tradeoff(device, kMessagesMb[i - 1], 4).shuffle);
      // "Both increase": on SSD and NVM only without the shuffle in it.
      EXPECT_GT(tradeoff(device, kMessagesMb[i], 4).file_benefit, tradeoff(device, kMessagesMb[i - 1], 4).file_benefit);
    }
  }
  EXPECT_GT(tradeoff(kHdd, 16, 4).benefit, tradeoff(kHdd, 2, 4).benefit);
  EXPECT_LT(tradeoff(kSsd, 16, 4).benefit, tradeoff(kSsd, 2, 4).benefit);
  EXPECT_LT(tradeoff(kNvm, 16, 4).benefit, tradeoff(kNvm, 2, 4).benefit);
}

}  // namespace
}  // namespace penstock::model::paper

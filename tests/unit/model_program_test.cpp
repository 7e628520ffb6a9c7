// Lines to penstock-model and the answers: right ones, wrong ones, hostile ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "model/program/answer.h"

namespace penstock::model {
namespace {

Json ask(const std::string& line) {
  const std::string text = answer(line);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return Json::parse(text);
}

std::string error_of(const std::string& line) { return ask(line).value("error", "no error"); }

Json request() {
  return Json::parse(R"({"operation": "paper",
      "platform": {"startup_seconds": 0.00539, "transfer_seconds_per_mb": 0.0335,
                   "sequential_mb_per_second": 110.98, "random_mb_per_second": 101.86},
      "workload": {"total_mb": 16384, "buffer_mb": 16, "ranks": 16, "aggregators": 4}})");
}

TEST(ModelProgram, PaperByItsStatedEstimates) {
  const Json found = ask(request().dump());
  EXPECT_EQ(found.begin().key(), "operation");
  EXPECT_EQ(found["iterations"], 1024);
  EXPECT_EQ(found["shuffled_share"], 0.75);
  EXPECT_NEAR(found["communication_seconds"].get<double>(), 1024 * (0.00539 + 0.0335 * 16 * 0.75), 1e-9);
  EXPECT_NEAR(found["individual_seconds"].get<double>(), 160.848, 1e-3);
}

TEST(ModelProgram, PaperWithEverythingGiven) {
  Json given = request();
  given["platform"]["other_seconds"] = 7;
  given["workload"].update({{"message_mb", 32}, {"iterations", 64}, {"shuffled_share", 1}});
  const Json found = ask(given.dump());
  EXPECT_NEAR(found["collective_seconds"].get<double>(), 216.583 + 7, 1e-3);
  EXPECT_NEAR(found["individual_seconds"].get<double>(), 160.848 + 7, 1e-3);
}

TEST(ModelProgram, WhatIsNoRequest) {
  for (const char* line : {"", " ", "x", "3", "null", "[]", "\"paper\"", "{", "{\"operation\": \"paper\"} more", "{\"a\": 1e999}",
                           "{\"\xff\": 1}", "{'operation': 'paper'}", "NaN"}) {
    EXPECT_NE(error_of(line).find("expected one JSON object"), std::string::npos) << line;
  }
  EXPECT_NE(error_of(std::string("\0{}", 3)).find("expected one JSON object"), std::string::npos);
}

TEST(ModelProgram, DeepLinesAreRefused) {
  for (const int depth : {20, 100'000}) {
    const std::string lists = std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
    EXPECT_NE(error_of(lists).find("16 deep"), std::string::npos);
    EXPECT_NE(error_of("{\"operation\": \"paper\", \"platform\": " + lists + "}").find("16 deep"), std::string::npos);
  }
}

TEST(ModelProgram, OperationsThatAreNot) {
  for (const char* line : {"{}", R"({"operation": "Paper"})", R"({"operation": ""})", R"({"operation": 7})", R"({"operation": ["paper"]})"}) {
    EXPECT_NE(error_of(line).find("operation: expected one of"), std::string::npos) << line;
  }
}

/// The error when one field is changed.
std::string changed(const char* object, const char* name, const Json& value) {
  Json whole = request();
  whole[object][name] = value;
  return error_of(whole.dump());
}

TEST(ModelProgram, FieldsAreCheckedAndNamed) {
  EXPECT_EQ(changed("platform", "startup_seconds", -1),
            "platform.startup_seconds: expected a number from 0 to 1000000000, found -1");
  EXPECT_NE(changed("platform", "sequential_mb_per_second", 0).find("platform.sequential_mb_per_second"), std::string::npos);
  EXPECT_NE(changed("platform", "random_mb_per_second", "fast").find("found \"fast\""), std::string::npos);
  EXPECT_NE(changed("workload", "ranks", 0).find("workload.ranks: expected a whole number from 1"), std::string::npos);
  EXPECT_NE(changed("workload", "ranks", 2.5).find("found 2.5"), std::string::npos);
  EXPECT_NE(changed("workload", "ranks", UINT64_MAX).find("found 18446744073709551615"), std::string::npos);
  EXPECT_NE(changed("workload", "aggregators", 17).find("workload.aggregators: expected a whole number from 0 to 16"),
            std::string::npos);
  EXPECT_NE(changed("workload", "buffer_mb", nullptr).find("found null"), std::string::npos);
  EXPECT_NE(changed("workload", "shuffled_share", 1.5).find("workload.shuffled_share"), std::string::npos);
  EXPECT_NE(changed("workload", "iterations", true).find("found true"), std::string::npos);
  EXPECT_NE(changed("workload", "total_mb", Json::object({{"a", 1}})).find("found an object"), std::string::npos);
  EXPECT_EQ(changed("workload", "total_megabytes", 1), "workload.total_megabytes: there is no such field here");
  EXPECT_NE(changed("workload", "total_mb", 1e15).find("no error"), std::string::npos);
}

TEST(ModelProgram, MissingAndUnknownFieldsOfTheRequest) {
  Json whole = request();
  whole.erase("platform");
  EXPECT_EQ(error_of(whole.dump()), "platform: expected a value, and there is no such field");
  whole["platform"] = 3;
  EXPECT_EQ(error_of(whole.dump()), "platform: expected an object, found 3");
  whole = request();
  whole["devices"] = "hdd";
  EXPECT_EQ(error_of(whole.dump()), "devices: there is no such field here");
}

TEST(ModelProgram, IterationsBeyondCounting) {
  Json whole = request();
  whole["workload"]["total_mb"] = 1e15;
  whole["workload"]["buffer_mb"] = 1e-9;
  EXPECT_NE(error_of(whole.dump()).find("workload.total_mb: more than 2^53"), std::string::npos);
  whole["workload"]["iterations"] = 3;
  EXPECT_EQ(error_of(whole.dump()), "no error");
}

TEST(ModelProgram, LongNamesAndTextsAreCutInErrors) {
  const std::string long_name(100'000, 'n');
  EXPECT_LT(changed("workload", long_name.c_str(), 1).size(), 200U);
  EXPECT_LT(changed("workload", "ranks", long_name).size(), 200U);
}

TEST(Fields, TypesOtherwiseAndDone) {
  const Json object = Json::parse(R"({"number": 1.5, "whole": 7, "text": "t", "flag": true, "inner": {"x": 1}, "list": [1, 2]})");
  Fields fields(object);
  EXPECT_EQ(fields.number("number", 0, 2), 1.5);
  EXPECT_EQ(fields.whole("whole", 0, 10), 7);
  EXPECT_EQ(fields.text("text"), "t");
  EXPECT_TRUE(fields.boolean("flag"));
  EXPECT_EQ(fields.object("inner")["x"], 1);
  EXPECT_NE(fields.done().text().find("list: there is no such field"), std::string_view::npos);
  EXPECT_EQ(fields.list("list", 2).size(), 2U);
  EXPECT_TRUE(fields.done().ok());
  EXPECT_EQ(fields.number("missing", 0, 2, 1.0), 1.0);
  EXPECT_EQ(fields.whole("missing", 0, 2, 1), 1);
  EXPECT_EQ(fields.text("missing", "else"), "else");
  EXPECT_TRUE(fields.boolean("missing", true));
  EXPECT_TRUE(fields.object("missing", true).empty());
  EXPECT_TRUE(fields.list("missing", 1, true).empty());
  EXPECT_TRUE(fields.done().ok());
  EXPECT_TRUE(fields.list("list", 1).empty());
  EXPECT_EQ(fields.done().text(), "list: expected a list of at most 1, found a list");
  Fields no_object(object["list"], "inner");
  EXPECT_EQ(no_object.done().text(), "inner: expected an object, found a list");
}

}  // namespace
}  // namespace penstock::model

// Hints: values of every kind, aliases, what stays in force, what is complained about, and the texts they come from.
#include "hints/hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hints/hint_table.h"

namespace penstock::hints {
namespace {

Parsed give(const std::string& key, const std::string& value, When when = When::kOpen, const Hints& base = defaults()) {
  return apply(base, {{key, value, "MPI_Info"}}, when);
}

// The value in force, or "(none)".
std::string told(const Hints& hints, const std::string& name) {
  const auto found = hints.effective.find(name);
  return found == hints.effective.end() ? "(none)" : found->second;
}

void expect_complaint(const Parsed& parsed, const std::string& part) {
  ASSERT_EQ(parsed.complaints.size(), 1U);
  EXPECT_NE(parsed.complaints[0].find(part), std::string::npos) << parsed.complaints[0];
}

TEST(Hints, DefaultsAreThoseOfTheTable) {
  const Hints hints = defaults();
  EXPECT_EQ(hints.read_buffer_bytes, 4194304);
  EXPECT_EQ(hints.write_buffer_bytes, 524288);
  EXPECT_EQ(hints.strategy, Strategy::kAutomatic);
  EXPECT_FALSE(hints.bypass);
  EXPECT_EQ(hints.permissions, -1);
  for (const HintRow& row : kHintRows)
    EXPECT_EQ(told(hints, std::string(row.name)), row.default_value.empty() ? "(none)" : std::string(row.default_value));
  // The fields' own initial values are the same, for those who never call defaults().
  const Hints plain;
  EXPECT_EQ(plain.read_buffer_bytes, hints.read_buffer_bytes);
  EXPECT_EQ(plain.write_buffer_bytes, hints.write_buffer_bytes);
}

TEST(Hints, DefaultsOfTheTableAreValuesThatWouldBeTaken) {
  for (const HintRow& row : kHintRows) {
    if (row.default_value.empty()) continue;
    const Parsed parsed = give(std::string(row.name), std::string(row.default_value));
    EXPECT_TRUE(parsed.complaints.empty()) << row.name;
    EXPECT_EQ(told(parsed.hints, std::string(row.name)), row.default_value);
  }
}

TEST(Hints, BytesTakeSuffixes) {
  const std::pair<const char*, Offset> cases[] = {{"4096", 4096},           {"8k", 8192},           {"8K", 8192},
                                                  {"8KiB", 8192},           {"3m", 3 << 20},        {"3M", 3 << 20},
                                                  {"3MiB", 3 << 20},        {"1g", 1 << 30},        {"2G", Offset{2} << 30},
                                                  {"1GiB", 1 << 30},        {"  64k ", 65536},      {"8kib", 8192},       {"1kib", 1024},
                                                  {"0000000000004096", 4096}};
  for (const auto& [text, bytes] : cases) {
    const Parsed parsed = give("ind_rd_buffer_size", text);
    EXPECT_EQ(parsed.hints.read_buffer_bytes, bytes == 0 ? 4194304 : bytes) << text;
    EXPECT_EQ(parsed.complaints.size(), bytes == 0 ? 1U : 0U) << text;
    EXPECT_EQ(told(parsed.hints, "ind_rd_buffer_size"), std::to_string(parsed.hints.read_buffer_bytes));
  }
}

TEST(Hints, HostileNumbersChangeNothing) {
  for (const char* text :
       {"", " ", "-1", "-9223372036854775808", "0", "+5000", "0x2000", "1e6", "8kB", "8 k", "8kk", "k", "4096.0",
        "9223372036854775807", "9223372036854775808", "8589934592g", "99999999999999999999999999", "9223372036854775807G",
        "2147483649", "3g", "١٢٣٤٥", "4096;rm", "8T"}) {
    const Parsed parsed = give("ind_wr_buffer_size", text);
    EXPECT_EQ(parsed.hints.write_buffer_bytes, 524288) << text;
    EXPECT_EQ(told(parsed.hints, "ind_wr_buffer_size"), "524288") << text;
    expect_complaint(parsed, "at least 1 and at most 2147483648");
  }
  EXPECT_EQ(give("ind_wr_buffer_size", std::string("8192\0", 5)).hints.write_buffer_bytes, 524288);
  EXPECT_EQ(give("ind_wr_buffer_size", std::string("8192\0k", 6)).complaints.size(), 1U);
}

TEST(Hints, CountsTakeNoSuffix) {
  EXPECT_EQ(told(give("striping_factor", "12").hints, "striping_factor"), "12");
  EXPECT_EQ(told(give("striping_factor", "-1").hints, "striping_factor"), "-1");
  expect_complaint(give("striping_factor", "1k"), "expected a number of at least -1 and at most 65531; none is in force");
  expect_complaint(give("striping_factor", "-2"), "\"-2\"");
}

TEST(Hints, SwitchesTakeWhatPeopleWrite) {
  for (const char* text : {"enable", "ENABLE", "Enable", "true", "True", "yes", "YES", "1", " 1 "})
    EXPECT_EQ(give("romio_ds_write", text).hints.sieve_writes, Switch::kEnable) << text;
  for (const char* text : {"disable", "False", "no", "0"}) {
    const Parsed parsed = give("penstock_sieve_reads", text);
    EXPECT_EQ(parsed.hints.sieve_reads, Switch::kDisable) << text;
    EXPECT_EQ(told(parsed.hints, "romio_ds_read"), "disable");
  }
  for (const char* text : {"automatic", "AUTO"})
    EXPECT_EQ(give("penstock_no_atime", text).hints.no_atime, Switch::kAutomatic) << text;
  for (const char* text : {"", "2", "on", "enabled", "enable disable", "tru"})
    expect_complaint(give("romio_ds_write", text), "automatic stays in force");
  EXPECT_TRUE(give("penstock_bypass", "yes").hints.bypass);
  EXPECT_FALSE(give("penstock_bypass", "automatic").hints.bypass);
}

// Programs compare what they are told with the words that ROMIO uses for this one, which are not those of its other switches.
TEST(Hints, ThePromiseOfCollectiveAccessIsTrueOrFalse) {
  EXPECT_EQ(told(defaults(), "romio_no_indep_rw"), "false");
  EXPECT_EQ(told(give("romio_no_indep_rw", "true").hints, "romio_no_indep_rw"), "true");
  EXPECT_EQ(told(give("romio_no_indep_rw", "FALSE").hints, "romio_no_indep_rw"), "false");
  expect_complaint(give("romio_no_indep_rw", "maybe"), "expected false, true");
}

TEST(Hints, StrategiesByName) {
  for (const Strategy strategy : {Strategy::kAutomatic, Strategy::kIndependent, Strategy::kMapped, Strategy::kSieved, Strategy::kTwoPhase, Strategy::kTwoLayer}) {
    const Parsed parsed = give("penstock_strategy", std::string(name(strategy)));
    EXPECT_EQ(parsed.hints.strategy, strategy);
    EXPECT_TRUE(parsed.complaints.empty());
  }
  EXPECT_EQ(told(give("penstock_strategy", "MAPPED").hints, "penstock_strategy"), "mapped");
  expect_complaint(give("penstock_strategy", "best"), "expected automatic, independent, mapped, sieved");
}

TEST(Hints, EveryStrategyOfTheTableHasAMeaning) {
  for (const HintRow& row : kHintRows) {
    if (row.name != "penstock_strategy") continue;
    for (const char* choice : {"automatic", "independent", "mapped", "sieved", "two_phase", "two_layer"})
      EXPECT_NE(row.choices.find(choice), std::string_view::npos);
    EXPECT_EQ(std::count(row.choices.begin(), row.choices.end(), ' '), 5);
  }
}

TEST(Hints, AliasesCountAsTheFirstName) {
  const Parsed parsed = give("penstock_write_buffer_size", "1m");
  EXPECT_EQ(parsed.hints.write_buffer_bytes, 1 << 20);
  EXPECT_EQ(told(parsed.hints, "ind_wr_buffer_size"), "1048576");
  EXPECT_EQ(told(parsed.hints, "penstock_write_buffer_size"), "(none)");
}

TEST(Hints, LaterOnesWin) {
  const Parsed parsed = apply(defaults(),
                              {{"ind_rd_buffer_size", "8k", "a file"},
                               {"penstock_read_buffer_size", "16k", "PENSTOCK_HINTS"},
                               {"ind_rd_buffer_size", "nonsense", "MPI_Info"}},
                              When::kOpen);
  EXPECT_EQ(parsed.hints.read_buffer_bytes, 16384);
  expect_complaint(parsed, "from MPI_Info: the value \"nonsense\" was ignored");
  expect_complaint(parsed, "16384 stays in force");
}

TEST(Hints, PermissionsAreOctal) {
  EXPECT_EQ(give("file_perm", "0640").hints.permissions, 0640);
  EXPECT_EQ(give("file_perm", "7777").hints.permissions, 07777);
  for (const char* text : {"8", "10000", "-1", "rw-r-----", "0x1ff", "640 ;", "777777777777777777777777"}) {
    const Parsed parsed = give("file_perm", text);
    EXPECT_EQ(parsed.hints.permissions, -1) << text;
    EXPECT_EQ(told(parsed.hints, "file_perm"), "(none)") << text;
    expect_complaint(parsed, "octal");
  }
}

TEST(Hints, AnEmptyTextTakesAHintBack) {
  const Parsed first = give("access_style", "read_once,sequential");
  EXPECT_EQ(told(first.hints, "access_style"), "read_once,sequential");
  EXPECT_EQ(told(give("access_style", "", When::kLater, first.hints).hints, "access_style"), "(none)");
}

TEST(Hints, SomeCanBeGivenAtOpenOnly) {
  const Parsed late = give("penstock_bypass", "yes", When::kLater);
  EXPECT_FALSE(late.hints.bypass);
  expect_complaint(late, "when the file is opened only; disable stays in force");
  EXPECT_TRUE(give("penstock_bypass", "no", When::kLater).complaints.empty());
  const Parsed foreign = give("striping_factor", "4", When::kLater);
  EXPECT_TRUE(foreign.complaints.empty());
  EXPECT_EQ(told(foreign.hints, "striping_factor"), "(none)");
  EXPECT_EQ(give("ind_rd_buffer_size", "8k", When::kLater).hints.read_buffer_bytes, 8192);
}

TEST(Hints, FactsAreToldNotTaken) {
  Hints base = defaults();
  base.effective["romio_visibility_immediate"] = "true";
  const Parsed parsed = give("romio_visibility_immediate", "false", When::kLater, base);
  EXPECT_EQ(told(parsed.hints, "romio_visibility_immediate"), "true");
  EXPECT_TRUE(parsed.complaints.empty());
  EXPECT_EQ(told(give("mpi_memory_alloc_kinds", "cuda").hints, "mpi_memory_alloc_kinds"), "mpi,system");
}

TEST(Hints, TheInfoOfOneFileFitsAnother) {
  Hints base = give("penstock_strategy", "mapped").hints;
  base.effective["penstock_store"] = "posix";
  base.effective["romio_filesystem_type"] = "ext4";
  std::vector<Given> given;
  for (const auto& [key, value] : base.effective) given.push_back({key, value, "MPI_Info"});
  const Parsed open = apply(defaults(), given, When::kOpen);
  EXPECT_TRUE(open.complaints.empty());
  EXPECT_EQ(open.hints.strategy, Strategy::kMapped);
  EXPECT_EQ(told(open.hints, "penstock_store"), "(none)");
  const Parsed later = apply(base, given, When::kLater);
  EXPECT_TRUE(later.complaints.empty());
  EXPECT_EQ(later.hints.effective, base.effective);
}

TEST(Hints, MisspeltNamesOfOursAreComplainedAbout) {
  expect_complaint(give("penstock_stratgy", "mapped"), "did you mean penstock_strategy?");
  expect_complaint(give("PENSTOCK_BYPASS", "yes"), "did you mean penstock_bypass?");
  expect_complaint(give("penstock_write_bufer_size", "1"), "did you mean penstock_write_buffer_size?");
  const Parsed parsed = give("penstock-strategy", "mapped");
  expect_complaint(parsed, "did you mean penstock_strategy?");
  EXPECT_EQ(parsed.hints.effective, defaults().effective);
}

TEST(Hints, ForeignNamesAreNot) {
  for (const char* key : {"cb_config_lists", "romio_cb_write", "nc_num_aggrs_per_node", "pen", "", "romio_ds_writ", "IND_RD_BUFFER_SIZE"}) {
    const Parsed parsed = give(key, "1");
    EXPECT_TRUE(parsed.complaints.empty()) << key;
    EXPECT_EQ(parsed.hints.effective, defaults().effective) << key;
  }
}

TEST(Hints, HostileTextsStayShortAndPrintable) {
  const Parsed key = give("penstock_" + std::string(1 << 20, 'x'), "1");
  expect_complaint(key, "...\"");
  EXPECT_LT(key.complaints[0].size(), 400U);
  const Parsed value = give("penstock_strategy", std::string("a\0b\n\x1b[31m\xff", 10));
  expect_complaint(value, R"("a\x00b\x0a\x1b[31m\xff")");
  EXPECT_EQ(give("access_style", std::string("a\0b", 3)).complaints.size(), 1U);
  EXPECT_EQ(give(std::string("penstock_strategy\0", 18), "mapped").hints.strategy, Strategy::kAutomatic);
}

TEST(HintsFromEnvironment, EntriesThatFitTheFile) {
  const auto keys = [](std::string_view text, std::string_view file) {
    const auto given = from_environment_text(text, file);
    std::string out;
    if (!given.ok()) return std::string(name(given.status().code()));
    for (const Given& one : *given) out += one.key + "=" + one.value + ";";
    return out;
  };
  EXPECT_EQ(keys("", "a"), "");
  EXPECT_EQ(keys(" ; \n;; ", "a"), "");
  EXPECT_EQ(keys("k=v", "/any/file"), "k=v;");
  EXPECT_EQ(keys("*.nc:k=v; *.h5 : k = w \nall=1;", "/d/x.nc"), "k=v;all=1;");
  EXPECT_EQ(keys("x.nc:k=v", "/d/x.nc"), "k=v;");
  EXPECT_EQ(keys("/d/*:k=v", "/d/e/x.nc"), "k=v;");
  EXPECT_EQ(keys("/d/x.nc:k=v", "d/x.nc"), "");
  EXPECT_EQ(keys("x.nc:k=v", "ufs:x.nc"), "k=v;");
  EXPECT_EQ(keys("ufs\\:*:k=v", "ufs:x.nc"), "k=v;");
  EXPECT_EQ(keys("a\\:b*:k=v", "a:b.nc"), "k=v;");
  EXPECT_EQ(keys("a\\:b=v", "file"), "a\\:b=v;");  // without a glob: an escaped colon is never its end
  EXPECT_EQ(keys("[ab]?:k=v", "b7"), "k=v;");
  EXPECT_EQ(keys("f:k=a=b:c", "f"), "k=a=b:c;");
  EXPECT_EQ(keys("f:k=", "f"), "k=;");
  EXPECT_EQ(keys("f:k=v", ""), "");
  EXPECT_EQ(from_environment_text("k=v", "f")->front().source, "PENSTOCK_HINTS");
}

TEST(HintsFromEnvironment, EntriesThatAreNone) {
  for (const char* text : {"key", "*.nc:key", ":key=value", "=value", "*:=value", "good=1;bad", "=", ":", "\\:key"}) {
    const auto given = from_environment_text(text, "f");
    ASSERT_FALSE(given.ok()) << text;
    EXPECT_EQ(given.status().code(), Code::kInfo);
  }
  EXPECT_NE(from_environment_text("good=1;b\x01 d", "f").status().text().find(R"("b\x01 d")"), std::string_view::npos);
}

TEST(HintsFile, KeysAndValues) {
  std::vector<std::string> complaints;
  const auto given = from_hints_file(
      "# for the big runs\n"
      "romio_cb_write enable\r\n"
      "\n"
      "   ind_rd_buffer_size\t8m   # eight\n"
      "alone\n"
      "one two three\n"
      "#x y\n"
      "last line",
      "hints.txt", complaints);
  ASSERT_EQ(given.size(), 3U);
  EXPECT_EQ(given[0].key, "romio_cb_write");
  EXPECT_EQ(given[0].value, "enable");
  EXPECT_EQ(given[0].source, "hints.txt");
  EXPECT_EQ(given[1].value, "8m");
  EXPECT_EQ(given[2].key, "last");
  ASSERT_EQ(complaints.size(), 2U);
  EXPECT_EQ(complaints[0], "hints.txt, line 5: \"alone\" was ignored; expected a key and a value, one word each");
  EXPECT_NE(complaints[1].find("line 6"), std::string::npos);
}

TEST(HintsFile, TheFirstOfTwoValuesCounts) {
  std::vector<std::string> complaints;
  const auto given = from_hints_file("ind_rd_buffer_size 49\nfile_perm 600\nind_rd_buffer_size 60\n", "f", complaints);
  ASSERT_EQ(given.size(), 2U);
  EXPECT_EQ(given[0].value, "49");
  EXPECT_EQ(given[1].key, "file_perm");
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_EQ(complaints[0], "f, line 3: \"ind_rd_buffer_size\" was ignored; an earlier line gives it");
}

TEST(HintsFile, HostileTexts) {
  std::vector<std::string> complaints;
  EXPECT_TRUE(from_hints_file("", "f", complaints).empty());
  EXPECT_TRUE(from_hints_file("\n\n \t \n", "f", complaints).empty());
  EXPECT_TRUE(complaints.empty());
  const auto given = from_hints_file(std::string("a\0b c\n", 6) + std::string(1 << 20, 'k'), "f", complaints);
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].key.size(), 3U);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_LT(complaints[0].size(), 300U);
}

TEST(FileNames, OnlyKnownPrefixesAreSplitOff) {
  for (const char* prefix : {"ufs", "nfs", "xfs", "lustre", "gpfs", "panfs", "pvfs2", "testfs"}) {
    const FileName name = split_prefix(std::string(prefix) + ":/d/x:y");
    EXPECT_EQ(name.prefix, prefix);
    EXPECT_EQ(name.path, "/d/x:y");
  }
  for (const char* plain : {"2024-01-01T00:00:00.nc", "a:b", ":x", "UFS:x", "/ufs:x", "ufs", "xufs:x", "daos:x", "", ":"}) {
    const FileName name = split_prefix(plain);
    EXPECT_EQ(name.prefix, "");
    EXPECT_EQ(name.path, plain);
  }
  EXPECT_EQ(split_prefix("ufs:").path, "");
  EXPECT_EQ(split_prefix("ufs:nfs:x").path, "nfs:x");
}

}  // namespace
}  // namespace penstock::hints

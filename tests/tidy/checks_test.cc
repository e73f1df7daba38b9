// The checks themselves: each finds what it is for, and only that.
#include "tidy/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::tidy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Source file(std::string path, std::string text) { return {std::move(path), std::move(text)}; }

TEST(IncludeDirection, FollowsTheTable) {
  const auto complaints = [](const char* path, const char* target) {
    return check_include_direction(file(path, std::string("#include \"") + target + "\"\n"));
  };
  EXPECT_THAT(complaints("src/base/a.h", "kernels/k.h"),
              ElementsAre("src/base/a.h:1: base may not include kernels/k.h"));
  EXPECT_THAT(complaints("src/base/a.h", "tutti/types.h"), IsEmpty());
  EXPECT_THAT(complaints("src/base/a.h", "tutti/communicator.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/schedule/a.cc", "base/a.h"), IsEmpty());
  EXPECT_THAT(complaints("src/schedule/a.cc", "schedule/readers/b.h"), IsEmpty());
  EXPECT_THAT(complaints("src/schedule/a.cc", "engine/engine.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/schedule/a.cc", "kernels/kernels.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/schedule/a.cc", "topology/rates.h"), IsEmpty());
  EXPECT_THAT(complaints("src/schedule/a.cc", "topology/discover/probe.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/trace/a.cc", "schedule/program.h"), IsEmpty());
  EXPECT_THAT(complaints("src/trace/a.cc", "engine/engine.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/schedule/a.cc", "trace/event.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/transport/shm/a.cc", "transport/memory/b.h"), IsEmpty());
  EXPECT_THAT(complaints("src/transport/shm/a.cc", "transport/transport.h"), IsEmpty());
  EXPECT_THAT(complaints("src/transport/shm/a.cc", "transport/threads/b.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/transport/memory/a.cc", "transport/shm/b.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/transport/transport.h", "transport/memory/b.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/transport/tcp/a.cc", "transport/memory/b.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/transport/shm/a.cc", "schedule/program.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/engine/a.cc", "transport/shm/b.h"), IsEmpty());
  EXPECT_THAT(complaints("include/tutti/a.h", "engine/engine.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/strategy/a.cc", "tutti/train/report.h"), IsEmpty());
  EXPECT_THAT(complaints("src/strategy/a.cc", "tutti/communicator.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/train/a.cc", "strategy/buckets.h"), IsEmpty());
  EXPECT_THAT(complaints("src/train/a.cc", "engine/engine.h"), SizeIs(1));
  EXPECT_THAT(complaints("tools/a.cc", "schedule/json.h"), IsEmpty());
  EXPECT_THAT(complaints("tools/a.cc", "engine/engine.h"), SizeIs(1));
  EXPECT_THAT(complaints("src/kernels/a.cc", "hwy/highway.h"), IsEmpty());
  EXPECT_THAT(complaints("src/kernels/a.cc", "a.h"), SizeIs(1));
  EXPECT_THAT(complaints("tests/a.cc", "engine/engine.h"), IsEmpty());
}

TEST(Purity, FindsClocksThreadsAndTheEnvironment) {
  EXPECT_THAT(check_schedule_is_pure(file("src/schedule/a.cc", "#include <chrono>\n#include <vector>\n")), SizeIs(1));
  EXPECT_THAT(check_schedule_is_pure(file("src/schedule/a.cc", "auto x = std::getenv(\"X\");\n")), SizeIs(1));
  EXPECT_THAT(check_schedule_is_pure(file("src/schedule/a.cc", "// a time (of day)\nint lifetime(int);\n")), IsEmpty());
  EXPECT_THAT(check_schedule_is_pure(file("src/strategy/a.cc", "#include <chrono>\n")), SizeIs(1));
  EXPECT_THAT(check_schedule_is_pure(file("src/engine/a.cc", "#include <chrono>\n")), IsEmpty());
}

TEST(Filesystem, IsFoundInWhatProgramsLoad) {
  EXPECT_THAT(check_no_filesystem(file("src/trace/a.cc", "#include <map>\n#include <filesystem>\n")),
              ElementsAre(HasSubstr("src/trace/a.cc:2: ")));
  EXPECT_THAT(check_no_filesystem(file("tools/a.cc", "#include <filesystem>\n")), IsEmpty());
}

TEST(DeadFiles, AreFound) {
  const Source list = file("src/x/CMakeLists.txt", "add_library(x alive.cc sub/below.cc)");
  const Source user = file("src/x/alive.cc", "#include \"x/used.h\"\n");
  EXPECT_THAT(check_dead_files({list, user, file("src/x/used.h", ""), file("src/x/sub/below.cc", "")}), IsEmpty());
  EXPECT_THAT(check_dead_files({list, user, file("src/x/unused.h", "")}), ElementsAre(HasSubstr("included by nobody")));
  EXPECT_THAT(check_dead_files({list, file("src/x/live.cc", "")}), SizeIs(1)) << "part of another name";
  EXPECT_THAT(check_dead_files({list, file("src/y/alive.cc", "")}), SizeIs(1)) << "another folder";
}

TEST(Printing, IsFoundInTheLibraryOnly) {
  EXPECT_THAT(check_library_does_not_print(file("src/a/a.cc", "\nstd::cout << 1;\n")),
              ElementsAre(HasSubstr("a.cc:2:")));
  EXPECT_THAT(check_library_does_not_print(file("include/tutti/a.h", "printf(\"x\");")), SizeIs(1));
  EXPECT_THAT(
      check_library_does_not_print(file("src/a/a.cc", "snprintf(b, 1, \"x\"); // printf(\nauto s = \"puts(\";")),
      IsEmpty());
  EXPECT_THAT(check_library_does_not_print(file("tools/a.cc", "fmt::print(\"x\");")), IsEmpty());
}

TEST(Words, ThatSayNothingAreFound) {
  EXPECT_THAT(check_words(file("src/a/string_utils.h", "")), SizeIs(1));
  EXPECT_THAT(check_words(file("src/a/a.h", "class BufferManager;\nint io_helper;\n")), SizeIs(2));
  EXPECT_THAT(check_words(file("README.md", "The common case.")), SizeIs(1));
  EXPECT_THAT(check_words(file("src/a/a.h", "std::common_type_t<int> uncommonly;")), IsEmpty());
  EXPECT_THAT(check_words(file("src/a/a.h", "// TODO later\n// TBD\n")), SizeIs(2));
  EXPECT_THAT(check_words(file("docs/a.md", "cd /home/me\n")), SizeIs(1));
  EXPECT_THAT(check_words(file("docs/a.md", "and/or, net/work/x, all work\n")), IsEmpty());
}

TEST(Sizes, AreCounted) {
  const auto lines = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "x;\n";
    return text;
  };
  EXPECT_THAT(check_size(file("src/a/a.cc", lines(kMostLines))), IsEmpty());
  EXPECT_THAT(check_size(file("src/a/a.cc", lines(kMostLines + 1))), SizeIs(1));
  EXPECT_THAT(check_columns(file("src/a/a.cc", std::string(120, 'x') + "\n" + std::string(121, 'x'))), SizeIs(1));
  EXPECT_THAT(check_columns(file("src/a/a.cc", "// " + std::string(50, ' ') + "→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→→")),
              IsEmpty());
}

TEST(FunctionSizes, SeeThroughNamespacesAndClasses) {
  const auto body = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "  if (x) { y(\"}\"); }  // {\n";
    return text;
  };
  const auto complaints = [&](const std::string& before, std::size_t count, const std::string& after) {
    return check_function_sizes(file("src/a/a.cc", before + body(count) + after));
  };
  EXPECT_THAT(complaints("namespace a {\nint f() {\n", 99, "}\n}\n"), IsEmpty());
  EXPECT_THAT(complaints("namespace a {\nint f() {\n", 101, "}\n}\n"),
              ElementsAre(HasSubstr("a.cc:2: a function of 102")));
  EXPECT_THAT(complaints("class A : public B {\n  int f() const noexcept {\n", 101, "}\n};\n"), SizeIs(1));
  EXPECT_THAT(complaints("A::A(int x) : x_(x) {\n", 101, "}\n"), SizeIs(1));
  EXPECT_THAT(complaints("TEST(A, B) {\n", 101, "}\n"), SizeIs(1));
  EXPECT_THAT(complaints("struct Table {\n  int f() { return 1; }\n", 0, std::string(200, '\n') + "};\n"), IsEmpty());
  EXPECT_THAT(complaints("constexpr int kTable[] = {\n", 0, std::string(200, '\n') + "};\n"), IsEmpty());
}

TEST(Openings, AreRequired) {
  EXPECT_THAT(check_opening(file("src/a/a.h", "// What it is.\n#pragma once\n")), IsEmpty());
  EXPECT_THAT(check_opening(file("src/a/a.h", "#pragma once\n")), SizeIs(1));
  EXPECT_THAT(check_opening(file("src/a/a.h", "// What it is.\n")), SizeIs(1));
  EXPECT_THAT(check_opening(file("src/a/a_inl.h", "// Included once per target.\n")), IsEmpty());
  EXPECT_THAT(check_opening(file("src/a/a.cc", "#include \"a/a.h\"\n")), IsEmpty());
  EXPECT_THAT(check_opening(file("src/a/b.cc", "#include \"a/a.h\"\n")), SizeIs(1));
}

TEST(Algorithms, NeedPictureCostAndBrevity) {
  const std::string good = "// Ring.\n//\n//   0 -> 1\n//\n// Cost: alpha\n#include \"x\"\n";
  EXPECT_THAT(check_algorithm_file(file("src/schedule/algorithms/ring.cc", good)), IsEmpty());
  EXPECT_THAT(check_algorithm_file(file("src/schedule/algorithms/ring.cc", "// Ring.\n")), SizeIs(2));
  EXPECT_THAT(check_algorithm_file(file("src/schedule/algorithms/ring.cc", good + std::string(94, '\n'))), SizeIs(1));
  const std::string shared = "#include \"schedule/algorithms/table.h\"\n";
  EXPECT_THAT(check_algorithm_file(file("src/schedule/algorithms/table.cc", shared)), IsEmpty());
  EXPECT_THAT(check_algorithm_file(file("src/schedule/algorithms/ring.cc", shared)), SizeIs(2));
}

TEST(Goldens, BelongToEveryRow) {
  const Source table =
      file("src/schedule/algorithms/algorithms.def",
           "// ALGORITHM(verb, name)\nALGORITHM(all_reduce, ring)\nALGORITHM(broadcast, tree, .a = 1)\n");
  const Source ring = file("tests/golden/all_reduce.ring.4.txt", "");
  EXPECT_THAT(check_golden_files({table, ring}), ElementsAre("no golden file tests/golden/broadcast.tree.4.txt"));
  EXPECT_THAT(check_golden_files({ring}), ElementsAre("no table of algorithms"));
}

TEST(Pages, AreLinkedFromTheIndex) {
  const Source index = file("docs/index.md", "[a](a.md), [b](learn/b.md)\n");
  const Source page = file("docs/a.md", ""), deep = file("docs/learn/c.md", ""), lost = file("docs/b.md", "");
  EXPECT_THAT(check_pages_are_linked({index, page, deep}), IsEmpty());
  EXPECT_THAT(check_pages_are_linked({index, page, lost}), ElementsAre("docs/index.md: nothing leads to docs/b.md"));
  EXPECT_THAT(check_pages_are_linked({page}), ElementsAre("no docs/index.md"));
}

TEST(TypeNames, AreOneThingEach) {
  const Source plan = file("src/a/plan.h", "struct Plan {\n  struct Step {};\n};\nclass Other;\n// struct Third {\n");
  const Source step =
      file("src/b/step.h", "class Step final : public X {\n};\nclass Other {\n};\nstruct Third {\n};\n");
  const Source again = file("src/c/plan.cc", "enum class Plan : int { a };\nstruct alignas(64) Step {\n};\n");
  EXPECT_THAT(check_type_names({plan, step}), IsEmpty());
  EXPECT_THAT(check_type_names({plan, step, again}),
              ElementsAre("src/c/plan.cc: a type named Plan, as in src/a/plan.h",
                          "src/c/plan.cc: a type named Step, as in src/b/step.h"));
}

TEST(Code, IsBlankedOutsideOfIt) {
  EXPECT_EQ(code_of("a; // b\nc \"d\\\"{\" '{' 1'000 /* {\n */ e\n#define X {\nR\"(}\n)\" f"),
            "a;     \nc \"    \" ' ' 1'000     \n    e\n           \n    \n   f");
}

TEST(WordsOf, TakesNamesApart) {
  EXPECT_THAT(words_of("fooBar_baz HTTPServer x2"), ElementsAre("foo", "bar", "baz", "httpserver", "x2"));
}

}  // namespace
}  // namespace tutti::tidy

// `tutti view` as people call it: pages that need nothing else, what they play, where they are served, and bad input.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "base/file_descriptor.h"
#include "shell.h"

namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::testing::Ended;

constexpr std::size_t kMostBytes = 600'000;

// A folder that goes with the test.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tutti-view-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string with(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

Ended view(const std::string& arguments) { return tutti::testing::shell(TUTTI_TOOL " view " + arguments); }

Json document(const std::string& arguments) {
  const Ended ended = view(arguments + " --json");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return Json::parse(ended.output, nullptr, false);
}

std::string page(const std::string& arguments) {
  const Folder folder;
  const std::string path = (folder.path / "page.html").string();
  const Ended ended = view(arguments + " --output " + path);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_refused(const std::string& arguments, const std::string& words) {
  const Ended ended = view(arguments);
  EXPECT_EQ(ended.exit_code, 2) << arguments;
  EXPECT_THAT(ended.output, HasSubstr(words));
}

TEST(ViewPage, NeedsNothingElseAndIsSmall) {
  static const std::regex kElsewhere(R"re((src|href)\s*=\s*["']?(https?:|//|\./)|url\(\s*["']?https?:|@import)re");
  for (const char* arguments : {"all_reduce -a ring -n 8", "all_reduce -a ring -n 64", "--gallery", "pipeline"}) {
    const std::string text = page(arguments);
    EXPECT_TRUE(text.starts_with("<!doctype html>")) << arguments;
    EXPECT_LE(text.size(), kMostBytes) << arguments;
    EXPECT_FALSE(std::regex_search(text, kElsewhere)) << arguments;
    EXPECT_THAT(text, AllOf(HasSubstr("\"tutti/main.js\":\"data:text/javascript"), HasSubstr("default-src 'none'"),
                            Not(HasSubstr("id=\"document\">{}<"))))
        << arguments;
  }
}

TEST(ViewPage, Of64RanksIsSmallWhateverTheAlgorithm) {
  const Folder folder;
  const std::string path = (folder.path / "page.html").string();
  const Json gallery = document("--gallery");
  for (const Json& one : gallery.at("documents")) {
    const std::string verb = one.at("verb"), name = one.at("algorithm");
    const int ranks = verb == "send_recv" ? 2 : 64;
    const std::string arguments = verb + " -a " + name + " -n " + std::to_string(ranks);
    Ended ended = view(arguments + " --output " + path);
    if (ended.exit_code != 0) ended = view(arguments + " --hosts 8,8,8,8,8,8,8,8 --output " + path);
    ASSERT_EQ(ended.exit_code, 0) << arguments << ended.output;
    EXPECT_LE(std::filesystem::file_size(path), kMostBytes) << arguments;
  }
  EXPECT_LE(page("all_to_all -n 512").size(), kMostBytes);
}

TEST(ViewPage, HoldsAllModulesThatModulesImport) {
  const std::string text = page("barrier -n 2");
  static const std::regex kImport(R"re(from \\"(tutti/[a-z]+\.js)\\")re");
  int imports = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), kImport), end; at != end; ++at, ++imports) {
    const std::string name = (*at)[1].str();
    EXPECT_THAT(text, HasSubstr("\"" + name + "\":\"data:")) << name;
  }
  EXPECT_GT(imports, 10);
}

TEST(ViewDocument, OfACollectiveHasAllPanes) {
  const Json ring = document("all_reduce -a ring -n 8 -b 1M");
  EXPECT_EQ(ring.at("frames").size(), 15U);
  EXPECT_TRUE(ring.at("proof").at("verified"));
  EXPECT_GT(ring.at("timeline").at("us").get<double>(), 0);
  int edges = 0;
  const Json& routes = ring.at("cluster").at("routes");
  for (std::size_t i = 0; i < routes.size(); i += 5) edges += routes[i].get<int>();  // rows of a run, and 4 numbers
  EXPECT_EQ(edges, 8) << "each to its neighbour";
  EXPECT_EQ(ring.at("cost").at("sizes").size(), ring.at("cost").at("quickest").size());
  const Json staged = document("all_reduce -a staged -n 4");
  EXPECT_FALSE(staged.contains("timeline")) << "clusters share no memory";
}

TEST(ViewDocument, OnAClusterLiesOnItsHosts) {
  const Json document_there = document("all_reduce -a ring -n 10 --topology dgx-h100:2");
  EXPECT_EQ(document_there.at("hosts"), Json({0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(document_there.at("timeline").at("topology"), "dgx-h100:2");
  expect_refused("all_reduce -n 16 --topology dgx-h100:1", "fewer than 16");
  const Json chosen = document("all_reduce -n 16 --topology dgx-h100:2 -b 64M");
  EXPECT_EQ(chosen.at("timeline").at("topology"), "dgx-h100:2") << "by an algorithm that runs there";
}

// As tutti sim has them: a rank that adds slowly, a slow link.
TEST(ViewDocument, HasTheTroublesOfASimulation) {
  const auto us = [](const std::string& words) {
    return document("all_reduce -a ring --topology cpu-10gbe:2 -b 1M --reduce 5 " + words)
        .at("timeline")
        .at("us")
        .get<double>();
  };
  EXPECT_GT(us("-n 4 --straggler 2:4x"), 2 * us("-n 4"));
  EXPECT_GT(us("-n 20 --slow-link 'eth 0 of host 1 and top-of-rack 0:4x'"), 2 * us("-n 20"));
  expect_refused("all_reduce -a direct -n 4 --straggler 2:4x", "of which there are none here");
  expect_refused("--straggler 2:4x pipeline --schedule 1f1b --stages 2 --microbatches 4", "of which there are none");
}

TEST(ViewDocument, OfTheGalleryHasEveryAlgorithm) {
  const Json gallery = document("--gallery");
  const Ended list =
      tutti::testing::shell("grep -c '^ALGORITHM(' " TUTTI_SOURCE_DIRECTORY "/src/schedule/algorithms/algorithms.def");
  EXPECT_EQ(gallery.at("documents").size(), std::stoul(list.output));
  for (const Json& one : gallery.at("documents")) EXPECT_TRUE(one.at("proof").at("verified")) << one.at("algorithm");
}

TEST(ViewFile, OfProgramsThatDoNotVerifyIsShownWithItsStory) {
  const Folder folder;
  Json programs = Json::parse(tutti::testing::shell(TUTTI_TOOL " show all_reduce -a ring -n 4 --json").output);
  Json& steps = programs["programs"][0]["lanes"][0]["steps"];
  steps.erase(steps.size() - 1);  // nobody takes the last message
  const Json shown = document("--file " + folder.with("broken.json", programs.dump()));
  EXPECT_FALSE(shown.at("proof").at("verified"));
  EXPECT_FALSE(shown.at("proof").at("problems").empty());
  EXPECT_FALSE(shown.at("frames").empty());
}

constexpr const char* kTrace = R"({"displayTimeUnit": "ns",
"tutti": {"format": 1, "job": "1f", "ranks": 2, "rows": ["program"], "parts": [{"rank": 1, "found": false}]},
"traceEvents": [
{"ph": "X", "cat": "call", "name": "all_reduce", "pid": 0, "tid": 1, "ts": 4.5, "dur": 10, )"
                               R"("args": {"bytes": 64, "algorithm": "ring", "predicted_us": 8, "began_us": 5}},
{"ph": "X", "cat": "wait", "name": "wait for 1", "pid": 0, "tid": 0, "ts": 1.25, "dur": 2, "args": {"peer": 1}},
{"ph": "s", "cat": "message", "name": "message", "pid": 0, "tid": 0, "ts": 1, "id": 1}
]})";

TEST(ViewFile, OfATraceHasItsSlicesInOrder) {
  const Folder folder;
  const Json trace = document("--file " + folder.with("run.json", kTrace));
  EXPECT_EQ(trace.at("kind"), "trace");
  EXPECT_EQ(trace.at("events"), Json({0, 0, 1, 2, 1.25, 2.0, 1, 1, 0, 0, 0, 4.5, 10.0, 0}));
  EXPECT_EQ(trace.at("calls"), Json::array({{64.0, 1, 8.0, 0.5}})) << "it waited for earlier ones";
  EXPECT_EQ(trace.at("span_us"), 14.5);
  EXPECT_EQ(trace.at("notes"), Json({"nothing is left of rank 1"}));
}

// What a call is held beside its prediction by begins when the last rank has come.
TEST(ViewFile, OfATraceHasTheWaitingOfCallsApart) {
  const Folder folder;
  const auto waited = [&](const std::string& more) {
    std::string text = kTrace;
    text.replace(text.find("\"began_us\": 5"), 13, "\"began_us\": 5" + more);
    return document("--file " + folder.with("run.json", text)).at("calls").at(0).at(3);
  };
  EXPECT_EQ(waited(R"(, "all_in_us": 11.5)"), 7.0);
  EXPECT_EQ(waited(R"(, "all_in_us": 4.75)"), 0.5);
  EXPECT_EQ(waited(R"(, "all_in_us": 99)"), 10.0) << "no longer than it took";
}

// Who receives waits until the message was sent, who sends until somebody is there; an eager send had ended by then.
TEST(ViewFile, OfATraceHasTheWaitingOfMessagesApart) {
  const Folder folder;
  const auto waited = [&](int sent_us, int received_us) {
    const auto message = [](int rank, int at, const char* direction) {
      return R"({"ph":"X","cat":"call","name":"send_recv","pid":0,"tid":)" + std::to_string(rank) + R"(,"ts":)" +
             std::to_string(at) + R"(,"dur":)" + std::to_string(100 - at) + R"(,"args":{"peer":)" +
             std::to_string(1 - rank) + R"(,"direction":")" + direction + R"("}},)";
    };
    const std::string text = R"({"tutti":{"format":1,"ranks":2},"traceEvents":[)" + message(0, sent_us, "send") +
                             message(1, received_us, "receive") + R"({"ph":"s","id":1,"tid":0,"ts":)" +
                             std::to_string(sent_us) + R"(},{"ph":"f","bp":"e","id":1,"tid":1,"ts":99.999}]})";
    const Json calls = document("--file " + folder.with("run.json", text)).at("calls");
    return std::pair(calls.at(0).at(3).get<double>(), calls.at(1).at(3).get<double>());
  };
  EXPECT_EQ(waited(10, 70), std::pair(60.0, 0.0)) << "the sender waits";
  EXPECT_EQ(waited(80, 5), std::pair(0.0, 75.0)) << "the receiver waits";
}

TEST(ViewFile, OfATraceNamesWhatItsFiguresLack) {
  const Folder folder;
  std::string text = kTrace;
  text.replace(text.find(R"([{"rank": 1, "found": false}])"), 29,
               R"([{"rank": 0, "ended": false, "nameless": 2}, {"rank": 1, "lost": 3}])");
  text.insert(text.find(R"({"ph": "X")"), R"({"ph": "X", "cat": 5, "tid": 0, "ts": 1}, null, )");
  const Json trace = document("--file " + folder.with("run.json", text));
  EXPECT_EQ(trace.at("events").size(), 14U);
  EXPECT_EQ(trace.at("notes"), Json({"rank 0 had no room for more names: algorithms or spans are left out",
                                     "rank 0 was killed, or still ran", "rank 1 lost its oldest events, 3 of them",
                                     "2 events cannot be read, and are left out"}));
}

TEST(ViewFile, OfATraceLeavesOutRowsThatItHasNot) {
  const Folder folder;
  for (const char* thread : {"1000000000000000000", "3"}) {
    std::string text = kTrace;
    text.replace(text.find("\"tid\": 0"), 8, std::string("\"tid\": ") + thread);
    const Json trace = document("--file " + folder.with("run.json", text));
    EXPECT_EQ(trace.at("events").size(), 7U) << thread;
    EXPECT_EQ(trace.at("rows").size(), 1U);
  }
}

TEST(ViewFile, ThatNestsTooDeepIsRefusedOrLeftOut) {
  const Folder folder;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  std::string text = kTrace;
  text.replace(text.find("\"peer\": 1"), 9, "\"peer\": " + deep);
  EXPECT_EQ(document("--file " + folder.with("run.json", text)).at("events").size(), 7U);
  expect_refused("--file " + folder.with("plan.json", R"({"sentence": "", "bill": )" + deep + "}"), "nests too deep");
}

TEST(ViewFile, OfATraceThatIsCutOffHasWhatIsReadable) {
  const Folder folder;
  const std::string whole = kTrace;
  const Json trace = document("--file " + folder.with("cut.json", whole.substr(0, whole.find("wait for 1"))));
  EXPECT_EQ(trace.at("events").size(), 7U) << "one slice";
  EXPECT_THAT(trace.at("notes").dump(), HasSubstr("cut off"));
  expect_refused("--file " + folder.with("head.json", whole.substr(0, 20)), "no trace that can be shown");
  expect_refused("--file " + folder.with("later.json", R"({"tutti": {"format": 9}, "traceEvents": []})"),
                 "its format is 9");
  expect_refused("--file " + folder.with("less.json", R"({"tutti": {"format": 1}, "traceEvents": []})"),
                 "how many ranks");
  expect_refused("--file " + folder.with("other.json", R"({"traceEvents": []})"),
                 "`tutti trace` reads those of torch.profiler");
}

TEST(ViewFile, OfAPlanAndAPipelineAreKnown) {
  const Folder folder;
  const std::string plan =
      tutti::testing::shell(TUTTI_TOOL " plan --model llama3-8b --cluster dgx-h100:4 --strategy zero3 --json").output;
  EXPECT_EQ(document("--file " + folder.with("plan.json", plan)).at("kind"), "plan");
  const std::string pipeline = tutti::testing::shell(TUTTI_TOOL " show pipeline --json").output;
  EXPECT_EQ(document("--file " + folder.with("pipeline.json", pipeline)), document("pipeline"));
}

// A page of them would stop half drawn.
TEST(ViewFile, ThatLacksWhatThePageReadsIsRefused) {
  const Folder folder;
  const auto expect = [&](const Json& file, const std::string& complaint) {
    expect_refused("--file " + folder.with("odd.json", file.dump()), complaint);
  };
  const std::string told =
      tutti::testing::shell(TUTTI_TOOL " plan --model llama3-8b --cluster dgx-h100:4 --strategy zero3 --json").output;
  const Json plan = Json::parse(told);
  Json odd = plan;
  odd["bill"]["stages"][0].erase("backward_seconds");
  expect(odd, "odd.json is no plan that can be shown: bill.stages[0].backward_seconds is missing");
  odd = plan;
  odd["mfu"] = nullptr;
  expect(odd, "mfu should be a number");
  odd = plan;
  odd["bill"]["stages"] = Json::array();
  expect(odd, "bill.stages is empty");
  const Json pipeline = Json::parse(tutti::testing::shell(TUTTI_TOOL " show pipeline --json").output);
  odd = pipeline;
  odd["programs"][1]["steps"][0].erase("batch");
  expect(odd, "odd.json is no pipeline that can be shown: programs[1].steps[0].batch is missing");
  odd = pipeline;
  odd["programs"].erase(0);
  expect(odd, "stages is 4, and programs has 3");
  const std::string nothing = "odd.json is nothing that the page plays";
  expect(Json::object({{"a", 1}}), nothing);
  expect(Json::array({1, 2}), nothing);
  expect(Json::object({{"topology", 3}, {"algorithms", Json::array()}}), nothing);
  expect(document("all_reduce -n 2"), nothing);
}

TEST(ViewUsage, IsRefusedInWords) {
  expect_refused("all_reduce --file x.json", "give either a verb or --file");
  for (const char* other : {"all_reduce", "-n 8", "-a ring", "-b 1K", "--topology dgx-h100", "--straggler 1:2x"})
    expect_refused(std::string("--gallery ") + other, "excludes --gallery");
  expect_refused("--file /no/such/file", "cannot read '/no/such/file'");
  expect_refused("", "name a verb");
  expect_refused("all_reduce --output /no/such/folder/x.html", "cannot write '/no/such/folder/x.html'");
  expect_refused("barrier -n 600", "600 ranks are more than the 512");
  const Folder folder;
  const std::string times =
      tutti::testing::shell(TUTTI_TOOL " sim all_reduce --topology cpu-10gbe:2 -b 1M -a ring --json").output;
  expect_refused("--file " + folder.with("times.json", times),
                 "tutti view all_reduce --topology cpu-10gbe:2 -b 1048576 plays it");
}

TEST(ViewServer, WithoutABrowserTheFileIsNamed) {
  const Folder folder;
  const Ended ended =
      tutti::testing::shell("env -u DISPLAY -u WAYLAND_DISPLAY -u BROWSER TMPDIR=" + folder.path.string() +
                            " " TUTTI_TOOL " view barrier -n 2");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  std::smatch path;
  ASSERT_TRUE(std::regex_search(ended.output, path, std::regex(R"((/\S+\.html))"))) << ended.output;
  EXPECT_TRUE(std::filesystem::file_size(path.str()) > 1000);
}

// What a server at this port answers.
std::string answer(int port, const std::string& request) {
  const tutti::FileDescriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "not connected";
  if (::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "not sent";
  return tutti::read_all(connection.get());
}

TEST(ViewServer, ServesThePageToThisHostAlone) {
  FILE* const served = ::popen("echo $$; exec env BROWSER=true " TUTTI_TOOL " view barrier -n 2", "r");
  ASSERT_NE(served, nullptr);
  int process = 0, port = 0;
  ASSERT_EQ(std::fscanf(served, "%d the page is at http://127.0.0.1:%d/", &process, &port), 2);
  const std::string host = "Host: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n";
  const std::string given = answer(port, "GET / HTTP/1.1\r\n" + host);
  EXPECT_TRUE(given.starts_with("HTTP/1.1 200 OK\r\n")) << given.substr(0, 100);
  EXPECT_THAT(given, AllOf(HasSubstr("<!doctype html>"), HasSubstr("</html>")));
  EXPECT_THAT(answer(port, "GET /other HTTP/1.1\r\n" + host), HasSubstr("404"));
  EXPECT_THAT(answer(port, "POST / HTTP/1.1\r\n" + host), HasSubstr("405"));
  for (const char* name : {"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "localhost"})
    EXPECT_THAT(answer(port, std::string("GET / HTTP/1.1\r\nHost: ") + name + "\r\n\r\n"), HasSubstr("200 OK"))
        << "by a tunnel, whose port is another: " << name;
  for (const char* name :
       {"elsewhere.example", "elsewhere.example:8000", "localhost.example:8000", "localhost:80a", ""})
    EXPECT_THAT(answer(port, std::string("GET / HTTP/1.1\r\nHost: ") + name + "\r\n\r\n"), HasSubstr("403")) << name;
  EXPECT_EQ(::kill(process, SIGTERM), 0);
  ::pclose(served);
}

}  // namespace

// A file of the Chrome trace format, read event by event: of one that was cut off, as far as it goes. Pure.
//
// Events are handed over one at a time, so that a large file is never in memory as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::analysis {

using Json = nlohmann::ordered_json;

inline constexpr int kTraceFormat = 1;                  // of docs/trace.md; a later one is refused
inline constexpr std::int64_t kMostJobRanks = 1 << 20;  // of a job; room is made for all that a file says it has
inline constexpr std::size_t kMostNesting = 64;  // of what is read as JSON: to copy it takes stack for each level

// Whether arrays and objects of this JSON lie in one another deeper than that.
bool nests_too_deep(std::string_view json);

class EventFile {
 public:
  // Keeps views of `text`, which has to live as long.
  explicit EventFile(std::string_view text);

  // Why this is no file of events, in words that go on behind "is no trace that can be shown: "; empty where it is one.
  const std::string& problem() const { return problem_; }
  // False: its end is missing, or what stands there is no JSON; what was readable is here.
  bool is_whole() const { return whole_; }
  // All but the events. What stands behind them is missing where the file was cut off.
  const Json& members() const { return members_; }
  std::size_t size() const { return events_.size(); }

  // Returns how many events could not be read, and were left out: what is no JSON, no event, or nothing to `take`,
  // which says so by an exception of JSON before it has taken anything.
  template <class Take>
  std::size_t for_each(Take&& take) const {
    std::size_t unreadable = 0;
    for (const std::string_view event : events_) {
      const Json parsed = nests_too_deep(event) ? Json() : Json::parse(event, nullptr, false);
      unreadable += is_event(parsed) && is_taken(take, parsed) ? 0 : 1;
    }
    return unreadable;
  }

 private:
  static bool is_event(const Json& parsed) {
    if (!parsed.is_object()) return false;
    const auto arguments = parsed.find("args");
    return arguments == parsed.end() || arguments->is_object();
  }
  template <class Take>
  static bool is_taken(Take&& take, const Json& event) {
    try {
      take(event);
      return true;
    } catch (const Json::exception&) {
      return false;
    }
  }
  void read_array(std::size_t at);
  void read_object();
  void read_members(const std::string& before, std::string_view behind);

  std::string_view text_;
  std::string problem_;
  bool whole_ = true;
  Json members_ = Json::object();
  std::size_t end_ = 0;  // behind the array
  std::vector<std::string_view> events_;
};

// In words, of a file that was cut off or has events that cannot be read (so many); empty where nothing is missing.
// `until_us` is when its last event ended.
std::string what_is_missing(const EventFile& file, std::size_t unreadable, double until_us);

}  // namespace tutti::analysis

// The text of a merged trace: docs/trace.md.
#include <algorithm>
#include <map>
#include <ostream>

#include "base/formatted.h"
#include "schedule/program.h"
#include "schedule/verbs.h"
#include "trace/calls.h"
#include "trace/merge.h"

namespace tutti::trace {
namespace {

// The length of the character of UTF-8 that begins here; 0: it is none.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(at + 1) < 0xa0) || (first == 0xf0 && byte(at + 1) < 0x90);
  const bool outside = (first == 0xed && byte(at + 1) > 0x9f) || (first == 0xf4 && byte(at + 1) > 0x8f);
  return overlong || outside ? 0 : length;
}

// Names come from programs, and rings from files: what is no UTF-8 becomes question marks.
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at);
    const char letter = text[at];
    if (length == 0) {
      out += '?';
    } else if (letter == '"' || letter == '\\') {
      out += {'\\', letter};
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      out += formatted("\\u%04x", static_cast<unsigned>(letter));
    } else {
      out.append(text, at, length);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return out + '"';
}

std::string us(std::int64_t ns) {
  const std::int64_t size = ns < 0 ? -ns : ns;
  return formatted("%s%lld.%03lld", ns < 0 ? "-" : "", static_cast<long long>(size / 1000),
                   static_cast<long long>(size % 1000));
}

std::string hex(std::uint64_t number) { return formatted("\"%llx\"", static_cast<unsigned long long>(number)); }

const char* word(bool value) { return value ? "true" : "false"; }

template <class Items, class Text>
std::string list_of(const Items& items, Text&& text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() == 1 ? "" : ",") + text(item);
  return out + "]";
}

std::string numbers(const std::vector<int>& values) {
  return list_of(values, [](int value) { return std::to_string(value); });
}

class TraceWriter {
 public:
  TraceWriter(std::ostream& out, const JobTrace& job) : out_(out), job_(job) {}

  void write() {
    out_ << "{\n\"displayTimeUnit\":\"ns\",\n\"tutti\":";
    write_facts();
    out_ << ",\n\"traceEvents\": [";
    write_names();
    for (const Slice& slice : job_.slices) write_slice(slice);
    std::uint64_t id = 0;
    for (const Flow& flow : flows_of(job_)) write_flow(flow, ++id);
    out_ << "\n]}\n";
  }

 private:
  void write_facts() {
    out_ << "{\"format\":1,\"version\":" << quote(job_.library) << ",\"job\":" << hex(job_.job)
         << ",\"ranks\":" << job_.ranks;
    out_ << ",\"hosts\":" << list_of(job_.hosts, [](const JobTrace::Host& host) {
      return "{\"name\":" + quote(host.name) + ",\"ranks\":" + numbers(host.ranks) +
             ",\"clock_offset_us\":" + us(host.offset_ns) + ",\"clock_error_us\":" + us(host.error_ns) + "}";
    });
    out_ << ",\"rows\":" << list_of(job_.rows, quote);
    int rank = 0;
    const bool all_found = job_.all_found();
    out_ << ",\"parts\":" << list_of(job_.parts, [&](const JobTrace::Part& part) {
      return "{\"rank\":" + std::to_string(rank++) + ",\"found\":" + word(part.found) +
             ",\"events\":" + std::to_string(part.events) + ",\"lost\":" + std::to_string(part.recording.lost()) +
             ",\"nameless\":" + std::to_string(part.recording.nameless) + ",\"ended\":" + word(part.recording.ended) +
             (!part.found && all_found ? ",\"recorded\":false}" : "}");
    });
    out_ << ",\"schedules\":" << list_of(schedules_of(job_), [](const RanSchedule& ran) {
      return "{\"verb\":" + quote(tutti::name_of(ran.verb)) + ",\"algorithm\":" + quote(ran.algorithm) +
             ",\"ranks\":" + std::to_string(ran.ranks) + ",\"calls\":" + std::to_string(ran.calls) + "}";
    });
    std::map<std::uint64_t, std::vector<int>> communicators;
    for (const JobTrace::Part& part : job_.parts) {
      for (const Recording::Communicator& known : part.recording.communicators) {
        std::vector<int>& ranks = communicators[known.id];
        if (!ranks.empty()) continue;
        for (int member = 0; member < known.size; ++member) ranks.push_back(known.job_rank(member));
      }
    }
    out_ << ",\"communicators\":" << list_of(communicators, [](const auto& known) {
      return "{\"id\":" + hex(known.first) + ",\"ranks\":" + numbers(known.second) + "}";
    }) << "}";
  }

  void begin_event() {
    out_ << (any_ ? ",\n" : "\n");
    any_ = true;
  }

  std::string place(int rank, int row) const {
    const JobTrace::Part& part = job_.parts[static_cast<std::size_t>(rank)];
    const std::int64_t thread = std::int64_t{row} * job_.ranks + rank;
    return "\"pid\":" + std::to_string(part.recording.facts.host) + ",\"tid\":" + std::to_string(thread);
  }

  void write_names() {
    for (std::size_t host = 0; host < job_.hosts.size(); ++host) {
      begin_event();
      out_ << R"({"ph":"M","pid":)" << host << R"(,"name":"process_name","args":{"name":)"
           << quote(job_.hosts[host].name) << "}}";
    }
    std::map<std::pair<int, int>, bool> used;
    for (std::size_t rank = 0; rank < job_.parts.size(); ++rank)
      if (job_.parts[rank].found) used[{static_cast<int>(rank), 0}] = true;
    for (const Slice& slice : job_.slices) used[{slice.rank, slice.row}] = true;
    for (const auto& [key, there] : used) {
      const auto [rank, row] = key;
      const std::string name =
          "rank " + std::to_string(rank) + (row == 0 ? "" : ", " + job_.rows[static_cast<std::size_t>(row)]);
      begin_event();
      out_ << R"({"ph":"M",)" << place(rank, row) << R"(,"name":"thread_name","args":{"name":)" << quote(name) << "}}";
      begin_event();
      out_ << R"({"ph":"M",)" << place(rank, row) << R"(,"name":"thread_sort_index","args":{"sort_index":)"
           << static_cast<std::size_t>(rank) * job_.rows.size() + static_cast<std::size_t>(row) << "}}";
    }
  }

  void write_slice(const Slice& slice) {
    const auto [category, name, arguments] = told(slice);
    begin_event();
    out_ << R"({"ph":"X","cat":")" << category << R"(","name":)" << quote(name) << "," << place(slice.rank, slice.row)
         << ",\"ts\":" << us(slice.begin_ns) << ",\"dur\":" << us(slice.end_ns - slice.begin_ns);
    if (!arguments.empty()) out_ << ",\"args\":{" << arguments << "}";
    out_ << "}";
  }

  struct Told {
    const char* category;
    std::string name, arguments;
  };

  Told told(const Slice& slice) const {
    const TraceEvent& event = slice.event;
    switch (event.kind) {
      case EventKind::call: return told_call(slice);
      case EventKind::step: return told_step(slice);
      case EventKind::wait: return told_wait(slice);
      case EventKind::train_step: {
        const std::string number = std::to_string(event.sequence);
        return {"train", "step " + number, "\"step\":" + number};
      }
      case EventKind::bucket: {
        const std::string number = std::to_string(event.other);
        return {"bucket", "bucket " + number,
                "\"step\":" + std::to_string(event.sequence) + ",\"bucket\":" + number +
                    ",\"bytes\":" + std::to_string(event.amount) + ",\"start_us\":" + us(slice.middle_ns)};
      }
      case EventKind::span: break;
    }
    return {"span", std::string(job_.name_of(slice)), ""};
  }

  std::string call_words(const Slice& slice) const {
    const Recording::Communicator* const communicator = job_.communicator_of(slice);
    const std::string words = "\"comm\":" + hex(communicator == nullptr ? 0 : communicator->id);
    const bool numbered = slice.event.sequence != TraceEvent::kUnnumbered;
    return numbered ? words + ",\"seq\":" + std::to_string(slice.event.sequence) : words;
  }

  Told told_call(const Slice& slice) const {
    const TraceEvent& event = slice.event;
    const auto verb = static_cast<Verb>(std::min<std::size_t>(event.what, kVerbs - 1));
    std::string text = call_words(slice) + ",\"bytes\":" + std::to_string(event.amount);
    if (!job_.name_of(slice).empty()) text += ",\"algorithm\":" + quote(job_.name_of(slice));
    if (event.predicted_ns() != TraceEvent::kUnknown_ns) text += ",\"predicted_us\":" + us(event.predicted_ns());
    text += ",\"began_us\":" + us(slice.middle_ns);
    if (slice.all_in_ns >= 0) text += ",\"all_in_us\":" + us(slice.all_in_ns);
    text += std::string(",\"async\":") + word(event.is_async());
    const int peer = job_.job_rank(slice, event.peer());
    if (verb == Verb::send_recv) {
      text += ",\"peer\":" + std::to_string(peer) +
              ",\"direction\":" + ((event.flags & TraceEvent::kSends) != 0 ? "\"send\"" : "\"receive\"");
    } else if (schedule::facts_of(verb).rooted) {
      text += ",\"root\":" + std::to_string(peer);
    }
    return {"call", std::string(tutti::name_of(verb)), text};
  }

  Told told_step(const Slice& slice) const {
    const TraceEvent& event = slice.event;
    const auto op = static_cast<schedule::StepOp>(std::min<std::uint8_t>(event.what, 2));
    std::string text = call_words(slice) + ",\"lane\":" + std::to_string(event.name) +
                       ",\"step\":" + std::to_string(event.step()) + ",\"segment\":" + std::to_string(event.segment());
    const auto peer = [&](const char* name, std::uint64_t ranks) {
      const int first = RankSet(ranks).first();
      if (first >= 0) text += name + std::to_string(job_.job_rank(slice, first));
    };
    peer(",\"from\":", event.other);
    peer(",\"to\":", event.amount);
    return {"step", std::string(schedule::name_of(op)), text};
  }

  Told told_wait(const Slice& slice) const {
    static constexpr const char* kOn[] = {
#define X(name) #name,
        TUTTI_WAITED_ON(X)
#undef X
    };
    const TraceEvent& event = slice.event;
    const auto on = static_cast<WaitedOn>(std::min<std::size_t>(event.what, std::size(kOn) - 1));
    const int peer = job_.job_rank(slice, event.peer());
    const std::string words = std::string(",\"on\":\"") + kOn[static_cast<std::size_t>(on)] + "\"";
    if (job_.communicator_of(slice) == nullptr) return {"wait", "wait for an async call", words.substr(1)};
    if (peer >= 0) {
      const std::string number = std::to_string(peer);
      return {"wait", "wait for " + number, call_words(slice) + ",\"peer\":" + number + words};
    }
    return {
        "wait",
        on == WaitedOn::work ? "wait for an async call" : std::string("wait for ") + kOn[static_cast<std::size_t>(on)],
        call_words(slice) + words};
  }

  void write_flow(const Flow& flow, std::uint64_t id) {
    const Slice &from = job_.slices[flow.from], &to = job_.slices[flow.to];
    begin_event();
    out_ << R"({"ph":"s","cat":"message","name":"message","id":)" << id << "," << place(from.rank, from.row)
         << ",\"ts\":" << us(from.begin_ns) << "}";
    begin_event();
    // Just before its end, so that it is this slice's and not that of one which begins there.
    out_ << R"({"ph":"f","bp":"e","cat":"message","name":"message","id":)" << id << "," << place(to.rank, to.row)
         << ",\"ts\":" << us(std::max(to.begin_ns, to.end_ns - 1)) << "}";
  }

  std::ostream& out_;
  const JobTrace& job_;
  bool any_ = false;
};

}  // namespace

void write_trace(std::ostream& out, const JobTrace& job) { TraceWriter(out, job).write(); }

}  // namespace tutti::trace

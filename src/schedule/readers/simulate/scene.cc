#include "schedule/readers/simulate/scene.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mix.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// A rank that a program names, on a channel of the edge with it.
struct Mention {
  Index index;
  int channel = 0;
};

// Ranks that a program names, numbered in the order of their first mention.
class Mentions {
 public:
  std::uint32_t number_of(const Index& index, int rank, int ranks, int channel = 0) {
    const int peer = index.resolve(rank, ranks);
    if (peer < 0 || peer >= ranks)
      throw Error(ErrorCode::invalid_argument, "the program of rank " + std::to_string(rank) + " names rank " +
                                                   std::to_string(peer) + " of " + std::to_string(ranks));
    const auto [entry, is_new] =
        numbers_.emplace(std::int64_t{channel} * ranks + peer, static_cast<std::uint32_t>(all_.size()));
    if (is_new) all_.push_back({index, channel});
    relative_ = relative_ && index.base == Index::Base::plus;
    return entry->second;
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(all_.size()); }
  const std::vector<Mention>& all() const { return all_; }
  bool all_relative() const { return relative_; }

 private:
  std::unordered_map<std::int64_t, std::uint32_t> numbers_;
  std::vector<Mention> all_;
  bool relative_ = true;
};

// A program with its peers numbered.
struct Numbered {
  SceneText text;
  Mentions edges, ins, peers;  // of messages that leave and windows, of messages that come, of waits
  std::vector<bool> loads;     // by edge: a window through which bytes come

  bool all_relative() const { return edges.all_relative() && ins.all_relative() && peers.all_relative(); }
};

class Numbering {
 public:
  Numbering(const Program& program, bool blocks_alike) : program_(program), blocks_alike_(blocks_alike) {}

  Numbered number() {
    result_.text.hears_first = program_.hears_first;
    for (const Lane& lane : program_.lanes) {
      std::vector<SceneStep>& steps = result_.text.lanes.emplace_back();
      steps.reserve(lane.steps.size());
      for (const Step& step : lane.steps) steps.push_back(number(step));
    }
    // Windows have edges of their own, behind those of messages.
    const std::uint32_t messages = result_.edges.size();
    result_.loads.assign(messages, false);
    for (const auto& [lane, step, index, loads] : windows_) {
      result_.text.lanes[lane][step].windows.push_back({static_cast<std::uint32_t>(result_.loads.size())});
      result_.loads.push_back(loads);
      window_indices_.push_back(index);
    }
    return std::move(result_);
  }
  // Of the edges behind those of messages.
  const std::vector<Index>& window_indices() const { return window_indices_; }

 private:
  struct WindowUse {
    std::size_t lane, step;
    Index index;
    bool loads;
  };

  SceneStep number(const Step& step) {
    SceneStep numbered;
    for (const Wait& wait : step.waits)
      numbered.waits.push_back({result_.peers.number_of(wait.rank, program_.rank, program_.ranks), wait.lane, wait.step,
                                wait.segments_back});
    for (const auto* operands : {&step.sources, &step.destinations}) {
      const bool comes = operands == &step.sources;
      for (const Operand& operand : *operands) {
        if (is_slot(operand)) {
          Mentions& mentions = comes ? result_.ins : result_.edges;
          (comes ? numbered.sources : numbered.destinations)
              .push_back({mentions.number_of(operand.rank, program_.rank, program_.ranks, operand.channel)});
        } else if (operand.kind == Operand::Kind::window &&
                   operand.rank.resolve(program_.rank, program_.ranks) != program_.rank) {
          windows_.push_back({result_.text.lanes.size() - 1, result_.text.lanes.back().size(), operand.rank, comes});
        }
      }
    }
    const auto is_own = [](const Operand& operand) { return operand.kind == Operand::Kind::own; };
    if (step.op == StepOp::reduce) numbered.reduced = static_cast<std::uint32_t>(step.sources.size() - 1);
    numbered.copies = step.op == StepOp::copy && is_own(step.sources.front()) &&
                      std::any_of(step.destinations.begin(), step.destinations.end(), is_own);
    numbered.writes_user_memory = writes_user(step);
    const Operand* const sized = sized_operand(step);
    numbered.blocks = sized == nullptr ? BlockSet{{}, 1, 0, 1} : sized->blocks;
    if (blocks_alike_) numbered.blocks = {{}, 1, numbered.blocks.count, 1};
    return numbered;
  }

  const Program& program_;
  bool blocks_alike_;
  Numbered result_;
  std::vector<WindowUse> windows_;
  std::vector<Index> window_indices_;
};

std::uint64_t hash_of(const SceneText& text) {
  std::uint64_t hash = text.hears_first ? 1 : 0;
  const auto add = [&](std::int64_t value) { hash = mix(hash, static_cast<std::uint64_t>(value)); };
  for (const std::vector<SceneStep>& lane : text.lanes) {
    add(static_cast<std::int64_t>(lane.size()));
    for (const SceneStep& step : lane) {
      for (const SceneWait& wait : step.waits) add(wait.peer + (std::int64_t{wait.step} << 20));
      for (const auto* slots : {&step.sources, &step.destinations, &step.windows}) {
        add(static_cast<std::int64_t>(slots->size()));
        for (const SceneSlot& slot : *slots) add(slot.number);
      }
      add(step.blocks.count);
      add(step.blocks.first.value);
    }
  }
  return hash;
}

class SceneMaker {
 public:
  SceneMaker(const ProgramSource& programs, std::uint64_t count, std::uint32_t element_bytes, SceneLinks& links)
      : programs_(programs), links_(links) {
    const Lowered first = programs.of(0);
    scene_.layout = Layout::of(first.program.verb, count, element_bytes,
                               static_cast<std::uint32_t>(first.program.blocks), first.segment_bytes);
    scene_.blocks_alike = scene_.layout.blocks_alike(0) && scene_.layout.blocks_alike(scene_.layout.segments - 1);
    offers_ = first.offers;
  }

  Scene make() {
    for (int rank = 0; rank < programs_.ranks; ++rank) add_rank(rank);
    join();
    return std::move(scene_);
  }

 private:
  void add_rank(int rank) {
    if (rank == 0 || !same_for_all_) {
      const Lowered lowered = programs_.of(rank);
      require(rank, lowered);
      Numbering numbering(lowered.program, scene_.blocks_alike);
      known_ = numbering.number();
      windows_ = numbering.window_indices();
      known_text_ = number_of_text(std::move(known_.text));
      same_for_all_ = programs_.alike && known_.all_relative() && windows_.empty();
    }
    SceneRank place;
    place.text = known_text_;
    place.rank = rank;
    place.first_edge = static_cast<std::uint32_t>(scene_.edges.size());
    for (const Mention& mention : known_.edges.all())
      add_edge(rank, rank, mention.index.resolve(rank, programs_.ranks), mention.channel);
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      const int peer = windows_[i].resolve(rank, programs_.ranks);
      const bool loads = known_.loads[known_.edges.size() + i];
      add_edge(rank, loads ? peer : rank, loads ? rank : peer, 0);
      scene_.edges.back().peer = peer;
    }
    place.edges = static_cast<std::uint32_t>(scene_.edges.size()) - place.first_edge;
    messages_.push_back(known_.edges.size());
    place.first_in = static_cast<std::uint32_t>(scene_.ins.size());
    for (const Mention& mention : known_.ins.all()) {
      scene_.ins.push_back(static_cast<std::uint32_t>(mention.index.resolve(rank, programs_.ranks)));  // for now
      in_channels_.push_back(mention.channel);
    }
    place.ins = known_.ins.size();
    place.first_peer = static_cast<std::uint32_t>(scene_.peers.size());
    for (const Mention& mention : known_.peers.all())
      scene_.peers.push_back(static_cast<std::uint32_t>(mention.index.resolve(rank, programs_.ranks)));
    place.peers = known_.peers.size();
    scene_.ranks.push_back(place);
  }

  void require(int rank, const Lowered& lowered) const {
    const Program& program = lowered.program;
    if (program.rank != rank || program.ranks != programs_.ranks)
      throw Error(ErrorCode::invalid_argument,
                  "program " + std::to_string(rank) + " of " + std::to_string(programs_.ranks) + " is for rank " +
                      std::to_string(program.rank) + " of " + std::to_string(program.ranks));
    if (static_cast<std::uint32_t>(program.blocks) != scene_.layout.blocks)
      throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " has another block count than rank 0");
  }

  void add_edge(int owner, int from, int to, int channel) {
    SceneEdge edge;
    edge.channel = channel;
    edge.from = static_cast<std::uint32_t>(owner);
    edge.to = static_cast<std::uint32_t>(to);
    edge.peer = to;
    edge.first_share = static_cast<std::uint32_t>(scene_.shares.size());
    edge.latency_s = links_.route(from, to, scene_, scene_.shares);
    edge.shares = static_cast<std::uint32_t>(scene_.shares.size()) - edge.first_share;
    edge.credits = std::max<std::uint32_t>(1, offers_.of(from, to).credits);
    scene_.edges.push_back(edge);
  }

  std::uint32_t number_of_text(SceneText text) {
    std::vector<std::uint32_t>& alike = by_hash_[hash_of(text)];
    for (const std::uint32_t number : alike) {
      if (scene_.texts[number] == text) return number;
    }
    alike.push_back(static_cast<std::uint32_t>(scene_.texts.size()));
    scene_.texts.push_back(std::move(text));
    return alike.back();
  }

  // Finds the edges of the messages that ranks take. One that nobody sends gets an edge where none ever comes.
  void join() {
    scene_.senders.assign(scene_.ins.begin(), scene_.ins.end());
    scene_.awaited.assign(scene_.peers.begin(), scene_.peers.end());
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> to(scene_.ranks.size());  // sender and edge
    for (std::uint32_t rank = 0; rank < scene_.ranks.size(); ++rank) {
      const SceneRank& place = scene_.ranks[rank];
      for (std::uint32_t i = 0; i < messages_[rank]; ++i)
        to[scene_.edges[place.first_edge + i].to].emplace_back(rank, place.first_edge + i);
    }
    for (std::uint32_t rank = 0; rank < scene_.ranks.size(); ++rank) {
      const SceneRank& place = scene_.ranks[rank];
      for (std::uint32_t i = 0; i < place.ins; ++i) {
        std::uint32_t& in = scene_.ins[place.first_in + i];
        const int channel = in_channels_[place.first_in + i];
        auto found = std::lower_bound(to[rank].begin(), to[rank].end(), std::pair(in, std::uint32_t{0}));
        const auto from_sender = [&] { return found != to[rank].end() && found->first == in; };
        while (from_sender() && scene_.edges[found->second].channel != channel) ++found;
        if (from_sender()) {
          in = found->second;
        } else {
          add_edge(static_cast<int>(in), static_cast<int>(in), static_cast<int>(rank), channel);
          in = static_cast<std::uint32_t>(scene_.edges.size()) - 1;
        }
      }
    }
  }

  std::vector<int> in_channels_;  // of Scene::ins
  const ProgramSource& programs_;
  SceneLinks& links_;
  Offers offers_;
  Scene scene_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_hash_;  // of texts
  std::vector<std::uint32_t> messages_;                                    // by rank: edges that are no windows
  // The last program that was read, which may be everybody's.
  Numbered known_;
  std::vector<Index> windows_;
  std::uint32_t known_text_ = 0;
  bool same_for_all_ = false;
};

}  // namespace

double Scene::bytes_of(std::uint32_t rank, const SceneStep& step, std::uint64_t segment) const {
  std::uint64_t elements = 0;
  if (blocks_alike || layout.blocks_alike(segment)) {
    elements = static_cast<std::uint64_t>(step.blocks.count) * layout.size(segment, 0);
  } else {
    for (int i = 0; i < step.blocks.count; ++i)
      elements += layout.size(
          segment, static_cast<std::uint64_t>(step.blocks.at(i, ranks[rank].rank, static_cast<int>(layout.blocks))));
  }
  return static_cast<double>(elements * layout.element_bytes);
}

double Scene::peak_of(std::span<const Flows::Share> way) const {
  double peak = Flows::kNever;
  for (const Flows::Share& share : way) peak = std::min(peak, capacities[share.link] / share.weight);
  return peak;
}

SceneLinks::SceneLinks(const topology::Topology& topology, std::span<const SimulateOptions::SlowLink> slow,
                       std::span<const std::int64_t> failed)
    : topology_(topology), router_(topology, failed) {
  for (const SimulateOptions::SlowLink& link : slow) slow_[link.link] = link.factor;
}

std::uint32_t SceneLinks::number_of(std::int64_t link, Scene& scene) {
  const auto [entry, is_new] = numbers_.emplace(link, static_cast<std::uint32_t>(scene.links.size()));
  if (is_new) {
    const auto slow = slow_.find(link);
    scene.links.push_back(link);
    scene.capacities.push_back(topology_.speed_of(link).bytes_per_s / (slow == slow_.end() ? 1 : slow->second));
  }
  return entry->second;
}

double SceneLinks::route(int from, int to, Scene& scene, std::vector<Flows::Share>& shares) {
  const topology::Route route = router_.route(from, to);
  for (const std::int64_t link : route.links) shares.push_back({number_of(link, scene), 1});
  return route.latency_s;
}

Scene make_scene(const ProgramSource& programs, std::uint64_t count, std::uint32_t element_bytes, SceneLinks& links) {
  return SceneMaker(programs, count, element_bytes, links).make();
}

}  // namespace tutti::schedule

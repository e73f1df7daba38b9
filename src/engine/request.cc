#include "engine/request.h"

#include <algorithm>
#include <numeric>

#include "base/rank_list.h"
#include "device/driver.h"
#include "engine/execute/own_operator.h"
#include "engine/execute/whole_elements.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

using schedule::Buffer;
using schedule::Holding;

// One of the two buffers of a request.
struct BufferSide {
  const char* name;
  const void* data;
  std::size_t count;  // elements that the caller says it holds
  const Parts* parts;
  Holding holding;
  std::size_t needed = 0;  // elements

  bool there() const { return holding != Holding::nothing; }
};

class Checker {
 public:
  Checker(const Request& request, const GroupView& group, UnevenChunks& chunks)
      : request_(request),
        group_(group),
        chunks_(chunks),
        facts_(schedule::facts_of(request.verb)),
        size_(static_cast<std::size_t>(group.size)),
        rank_(static_cast<std::size_t>(group.rank)) {}

  Call check();

 private:
  [[noreturn]] void reject(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) const {
    const std::string name(group_.name.empty() ? name_of(request_.verb) : group_.name);
    throw Error(code, name + (request_.uneven ? "_v: " : ": ") + what);
  }
  void check_element() const;
  void check_operator(Call& call) const;
  void check_root() const;
  void check_message(Call& call) const;
  void even_lengths();
  void uneven_lengths(Call& call);
  std::size_t lay_out(const BufferSide& side, std::vector<std::uint64_t>& counts,
                      std::vector<std::uint64_t>& displacements);
  void check_side(const BufferSide& side) const;
  void check_overlap(Call& call) const;
  bool chunks_touch() const;
  std::uint32_t mark() const;
  std::string lengths() const;

  const Request& request_;
  const GroupView& group_;
  UnevenChunks& chunks_;
  const schedule::VerbFacts facts_;
  std::size_t size_, rank_;
  BufferSide input_{}, output_{};
  std::size_t chunk_ = 0;  // elements of the vector, or of this rank's chunk
};

void Checker::check_element() const {
  const Element& element = request_.element;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  if (element.opaque()) {
    if (element.bytes() == 0 || element.bytes() > kMost)
      reject("an element has 1 byte to 1 GB, not " + std::to_string(element.bytes()));
    if ((element.alignment() & (element.alignment() - 1)) != 0 || element.alignment() == 0)
      reject("an alignment is a power of two, not " + std::to_string(element.alignment()));
    if (element.bytes() % element.alignment() != 0) {
      reject("an element of " + std::to_string(element.bytes()) + " bytes cannot be aligned to " +
             std::to_string(element.alignment()) + "; its size must be a multiple of its alignment");
    }
  } else if (static_cast<std::size_t>(element.dtype()) >= kDTypes) {
    reject("there is no element type " + std::to_string(static_cast<int>(element.dtype())));
  }
}

std::string name_of_element(const Element& element) {
  return element.opaque() ? "an element of " + std::to_string(element.bytes()) + " bytes"
                          : std::string(name_of(element.dtype()));
}

void Checker::check_operator(Call& call) const {
  if (!facts_.reduces) return;
  const Op& op = request_.op;
  if (const Operator* own = op.own().get()) {
    if (!(own->element == request_.element)) {
      reject(words_of(*own) + " is for " + name_of_element(own->element) + ", not for " +
             name_of_element(request_.element));
    }
    if (own->element.bytes() > kMostOwnBytes) {
      reject("an operator of one's own takes elements of at most " + std::to_string(kMostOwnBytes) + " bytes, not " +
                 std::to_string(own->element.bytes()),
             ErrorCode::unsupported);
    }
    call.own = own;
    call.keep_order = !own->commutative;
    return;
  }
  const ReduceOp builtin = op.builtin();
  if (static_cast<std::size_t>(builtin) >= kReduceOps)
    reject("there is no operator " + std::to_string(static_cast<int>(builtin)));
  if (request_.element.opaque()) {
    reject(name_of_element(request_.element) + " has no operator " + std::string(name_of(builtin)) +
               "; give an operator of your own (tutti::Op::of)",
           ErrorCode::unsupported);
  }
  const DType type = request_.element.dtype();
  call.reduce = all_reduces()[static_cast<std::size_t>(type)][static_cast<std::size_t>(builtin)];
  if (call.reduce == nullptr)
    reject(std::string(name_of(type)) + " has no operator " + std::string(name_of(builtin)), ErrorCode::unsupported);
  const bool weighted = builtin == ReduceOp::average || builtin == ReduceOp::premul_sum;
  if (weighted && facts_.prefix)
    reject(std::string(name_of(builtin)) + " has no meaning for prefixes", ErrorCode::unsupported);
  if (builtin == ReduceOp::average) call.divisor = static_cast<std::uint32_t>(size_);
  if (builtin == ReduceOp::premul_sum) {
    call.scale = kernels::find_scale(type);
    call.factor = op.factor();
  }
}

void Checker::check_root() const {
  if (facts_.rooted && (request_.root < 0 || request_.root >= group_.size))
    reject("root " + std::to_string(request_.root) + " is not a rank of this group of " + std::to_string(size_));
}

void Checker::check_message(Call& call) const {
  const bool sends = request_.direction == Direction::send;
  if (!sends && request_.direction != Direction::receive) reject("a message is either sent or received");
  const int peer = request_.peer;
  const bool any = !sends && peer == kAnySource;
  if (!any && (peer < 0 || peer >= group_.size))
    reject("peer " + std::to_string(peer) + " is not a rank of this group of " + std::to_string(size_));
  if (request_.tag < 0 && (sends || request_.tag != kAnyTag))
    reject("tag " + std::to_string(request_.tag) + " is negative");
  if (request_.up_to && sends) reject("a message has one length; only a receive may be of up to so many elements");
  call.sends = sends;
  call.root = sends ? group_.rank : peer;
  call.peer = peer;
}

std::string Checker::lengths() const {
  return "input has " + std::to_string(input_.count) + " elements and output " + std::to_string(output_.count);
}

// What the lengths of the buffers must be, from the one that every rank has.
void Checker::even_lengths() {
  const Verb verb = request_.verb;
  if (verb == Verb::all_to_all && input_.count % size_ != 0) {
    reject("input has " + std::to_string(input_.count) + " elements, which is no multiple of " + std::to_string(size_) +
           " ranks");
  }
  const bool output_leads =
      !input_.there() || verb == Verb::broadcast || verb == Verb::scatter || verb == Verb::reduce_scatter;
  chunk_ = output_leads ? output_.count : input_.count;
  if (verb == Verb::all_to_all) chunk_ /= size_;
  if (!schedule::moves_data(verb)) chunk_ = 0;
  const std::size_t most = ~std::size_t{0} / size_;
  for (BufferSide* side : {&input_, &output_}) {
    const bool many = facts_.cut == schedule::Cut::chunks && side->holding == Holding::all;
    if (many && chunk_ > most) reject(std::to_string(chunk_) + " elements per rank are more than memory can hold");
    side->needed = many ? chunk_ * size_ : chunk_;
    if (!side->there() || side->needed == side->count) continue;
    reject(lengths() + "; with " + std::to_string(size_) + (size_ == 1 ? " rank " : " ranks ") + side->name +
           " must have " + std::to_string(side->needed));
  }
}

// Copies the parts of a buffer that holds a chunk per rank; returns how far they reach, in elements.
std::size_t Checker::lay_out(const BufferSide& side, std::vector<std::uint64_t>& counts,
                             std::vector<std::uint64_t>& displacements) {
  const Parts& parts = *side.parts;
  if (parts.counts.size() != size_) {
    reject("the parts of " + std::string(side.name) + " need " + std::to_string(size_) + " counts, one per rank, not " +
           std::to_string(parts.counts.size()));
  }
  if (!parts.displacements.empty() && parts.displacements.size() != size_) {
    reject("the parts of " + std::string(side.name) + " need " + std::to_string(size_) +
           " displacements or none, not " + std::to_string(parts.displacements.size()));
  }
  counts.assign(parts.counts.begin(), parts.counts.end());
  displacements.resize(size_);
  std::size_t at = 0, reach = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    displacements[i] = parts.displacements.empty() ? at : parts.displacements[i];
    if (__builtin_add_overflow(at, counts[i], &at) || displacements[i] + counts[i] < counts[i])
      reject("the counts of " + std::string(side.name) + " add up to more than memory can hold");
    if (counts[i] != 0) reach = std::max(reach, displacements[i] + counts[i]);
  }
  if (reach > side.count) {
    reject("the parts of " + std::string(side.name) + " reach to element " + std::to_string(reach) + ", but it has " +
           std::to_string(side.count));
  }
  if (side.parts->displacements.empty() || &side != &output_) return reach;
  // Two ranks' chunks must not land on each other.
  std::vector<std::size_t>& order = chunks_.by_place;
  order.clear();
  for (std::size_t i = 0; i < size_; ++i) {
    if (counts[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return displacements[a] < displacements[b]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (displacements[order[i - 1]] + counts[order[i - 1]] > displacements[order[i]])
      reject("the parts of output for ranks " + std::to_string(std::min(order[i - 1], order[i])) + " and " +
             std::to_string(std::max(order[i - 1], order[i])) + " overlap");
  }
  return reach;
}

void Checker::uneven_lengths(Call& call) {
  if (facts_.cut != schedule::Cut::chunks) reject("there is no such variant");
  call.uneven = true;
  for (BufferSide* side : {&input_, &output_}) {
    auto& counts = side == &input_ ? chunks_.input_counts : chunks_.output_counts;
    auto& displacements = side == &input_ ? chunks_.input_displacements : chunks_.output_displacements;
    if (side->holding == Holding::all) {
      side->needed = lay_out(*side, counts, displacements);
    } else {
      counts.assign(size_, 0);
      displacements.assign(size_, 0);
      side->needed = side->there() ? side->count : 0;
      if (side->there()) counts[rank_] = side->count;
    }
  }
  // A chunk has one length, whichever buffer says it.
  auto& in = chunks_.input_counts;
  auto& out = chunks_.output_counts;
  if (request_.verb == Verb::all_to_all) {
    if (in[rank_] == out[rank_]) return;
    reject("rank " + std::to_string(rank_) + " sends itself " + std::to_string(in[rank_]) + " elements but expects " +
           std::to_string(out[rank_]) + "; the two counts must be equal");
  }
  if (input_.holding == Holding::all || output_.holding == Holding::all) {
    const bool input_has_all = input_.holding == Holding::all;
    const BufferSide& alone = input_has_all ? output_ : input_;
    const std::uint64_t count = (input_has_all ? in : out)[rank_];
    if (alone.count != count) {
      reject(std::string(alone.name) + " has " + std::to_string(alone.count) + " elements, but the count of rank " +
             std::to_string(rank_) + " is " + std::to_string(count));
    }
    (input_has_all ? out : in) = input_has_all ? in : out;
  } else {
    in[rank_] = out[rank_] = (input_.there() ? input_ : output_).count;
  }
  if (facts_.all_know_counts) chunk_ = std::accumulate(in.begin(), in.end(), std::uint64_t{0});
}

void Checker::check_side(const BufferSide& side) const {
  if (!side.there() || side.needed == 0) return;
  const Element& element = request_.element;
  constexpr std::size_t kMostBytes = std::size_t{1} << 56;  // more than any machine has, and safe to add up
  if (side.needed > kMostBytes / element.bytes())
    reject(std::to_string(side.needed) + " elements are more than memory can hold");
  if (side.data == nullptr)
    reject(std::string(side.name) + " is null but " + std::to_string(side.needed) + " elements are asked for");
  if ((reinterpret_cast<std::uintptr_t>(side.data) & (element.alignment() - 1)) != 0) {
    reject(std::string(side.name) + " is not aligned to " + std::to_string(element.alignment()) + " bytes, as " +
           name_of_element(element) + " needs");
  }
}

// Whether a chunk of input and one of output share memory: chunks with displacements may lie far apart, and what is
// between them is not the buffer's.
bool Checker::chunks_touch() const {
  const std::size_t bytes = request_.element.bytes();
  const auto start_of = [&](const BufferSide& side, const std::vector<std::uint64_t>& displacements, std::size_t i) {
    const std::size_t at = side.holding == Holding::all ? displacements[i] : 0;
    return reinterpret_cast<std::uintptr_t>(side.data) + at * bytes;
  };
  const auto has = [&](const BufferSide& side, std::size_t i) { return side.holding == Holding::all || i == rank_; };
  for (std::size_t i = 0; i < size_; ++i) {
    if (!has(input_, i) || chunks_.input_counts[i] == 0) continue;
    const std::uintptr_t in = start_of(input_, chunks_.input_displacements, i);
    for (std::size_t j = 0; j < size_; ++j) {
      if (!has(output_, j) || chunks_.output_counts[j] == 0) continue;
      const std::uintptr_t out = start_of(output_, chunks_.output_displacements, j);
      if (in < out + chunks_.output_counts[j] * bytes && out < in + chunks_.input_counts[i] * bytes) return true;
    }
  }
  return false;
}

// In place, what both buffers hold is the same memory; otherwise they must not touch.
void Checker::check_overlap(Call& call) const {
  if (!input_.there() || !output_.there() || input_.needed == 0 || output_.needed == 0) return;
  const std::size_t bytes = request_.element.bytes();
  const auto in = reinterpret_cast<std::uintptr_t>(input_.data), out = reinterpret_cast<std::uintptr_t>(output_.data);
  const std::uintptr_t in_end = in + input_.needed * bytes, out_end = out + output_.needed * bytes;
  if (in >= out_end || out >= in_end) return;
  if (request_.uneven && !chunks_touch()) return;
  const auto own_at = [&](const std::vector<std::uint64_t>& displacements) {
    return (request_.uneven ? displacements[rank_] : rank_ * chunk_) * bytes;
  };
  if (input_.holding == output_.holding) {
    if (in == out && request_.uneven)
      reject("runs out of place only: parts of different lengths would land on each other");
    call.in_place = in == out;
  } else if (output_.holding == Holding::all) {
    call.in_place = in == out + own_at(chunks_.output_displacements);
  } else {
    call.in_place = out == in + own_at(chunks_.input_displacements);
  }
  // The own part is written while others are still read.
  if (call.in_place && request_.uneven && input_.holding == Holding::all && output_.holding == Holding::own) {
    const auto& at = chunks_.input_displacements;
    const auto& counts = chunks_.input_counts;
    for (std::size_t i = 0; i < size_; ++i) {
      if (i != rank_ && counts[i] != 0 && at[i] < at[rank_] + counts[rank_] && at[rank_] < at[i] + counts[i]) {
        reject("in place, the part of input for rank " + std::to_string(i) + " must not overlap this rank's own, " +
               "which is the output");
      }
    }
  }
  if (!call.in_place) {
    reject(input_.holding == output_.holding
               ? "input and output overlap; pass the same address for in-place, or disjoint buffers"
               : "input and output overlap; in place one is this rank's chunk of the other, else they are disjoint");
  }
}

std::uint32_t Checker::mark() const {
  std::uint64_t hash = 0;
  if (request_.verb == Verb::send_recv) return static_cast<std::uint32_t>(request_.tag);
  if (request_.uneven && facts_.all_know_counts) {
    for (const std::uint64_t count : chunks_.input_counts) hash = mix(hash, count + 1);
  }
  if (facts_.reduces && request_.op.own() != nullptr) {
    const Operator& own = *request_.op.own();
    hash = mix(hash, own.commutative ? 1 : 2);
    for (const std::string* words : {&own.name, &own.type}) hash = mix_letters(hash, *words);
    hash = mix(hash, own.device_source.hash());
  }
  if (request_.mark != 0) hash = mix(hash, request_.mark);
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

Call Checker::check() {
  Call call;
  call.verb = request_.verb;
  call.root = facts_.rooted ? request_.root : 0;
  check_element();
  check_operator(call);
  int receiver = -1;
  const int owner = group_.rank;
  if (call.is_message()) {
    check_message(call);
    const bool sends = request_.direction == Direction::send;
    receiver = sends ? request_.peer : group_.rank;
    input_ = {"buffer", request_.input, request_.input_count, nullptr, sends ? Holding::all : Holding::nothing};
    output_ = {"buffer", request_.output, request_.output_count, nullptr, sends ? Holding::nothing : Holding::all};
  } else {
    check_root();
    const auto holding = [&](Buffer buffer) {
      return schedule::holding_of(request_.verb, buffer, group_.size, owner, request_.root);
    };
    input_ = {"input", request_.input, request_.input_count, &request_.input_parts, holding(Buffer::input)};
    output_ = {"output", request_.output, request_.output_count, &request_.output_parts, holding(Buffer::output)};
    if (facts_.reads_input_at_root_only && group_.rank != request_.root) input_.holding = Holding::nothing;
  }
  if (request_.uneven) {
    uneven_lengths(call);
  } else {
    even_lengths();
  }
  check_side(input_);
  check_side(output_);
  check_overlap(call);

  const Element& element = request_.element;
  const bool whole = !element.opaque() || facts_.reduces;
  const std::uint64_t units = whole ? 1 : element.bytes();
  call.unit_bytes = static_cast<std::uint32_t>(whole ? element.bytes() : 1);
  call.elements = chunk_;
  call.count = chunk_ * units;
  call.input_bytes = input_.there() ? input_.needed * element.bytes() : 0;
  call.output_bytes = output_.there() ? output_.needed * element.bytes() : 0;
  call.moved_bytes = chunk_ * element.bytes();
  if (!request_.uneven && facts_.cut == schedule::Cut::chunks) call.moved_bytes *= size_;
  if (input_.there()) call.input = static_cast<const std::byte*>(input_.data);
  if (output_.there()) call.output = static_cast<std::byte*>(const_cast<void*>(output_.data));
  if (request_.uneven) {
    for (auto* numbers :
         {&chunks_.input_counts, &chunks_.input_displacements, &chunks_.output_counts, &chunks_.output_displacements}) {
      for (std::uint64_t& number : *numbers) number *= units;
    }
    call.input_chunks = {chunks_.input_counts.data(), chunks_.input_displacements.data()};
    call.output_chunks = {chunks_.output_counts.data(), chunks_.output_displacements.data()};
  }
  const std::uint8_t type = element.opaque() ? Statement::kOwn : static_cast<std::uint8_t>(element.dtype());
  const std::uint8_t op = !facts_.reduces       ? 0
                          : call.own != nullptr ? Statement::kOwn
                                                : static_cast<std::uint8_t>(request_.op.builtin());
  call.kinds =
      Statement::kinds_of(call.verb, schedule::moves_data(call.verb) ? type : std::uint8_t{0}, op, call.root, receiver);
  call.detail = Statement::detail_of(element.opaque() ? static_cast<std::uint32_t>(element.bytes()) : 0,
                                     request_.uneven || (call.is_message() && request_.up_to), mark());
  if (call.own != nullptr && element.bytes() > group_.most_own_bytes)
    move_whole(call, group_.rank, group_.size, chunks_);
  return call;
}

}  // namespace

const Reduces& all_reduces() {
  static const auto kAll = [] {
    struct {
      Reduces found;
    } all;
    for (std::size_t type = 0; type < kDTypes; ++type) {
      for (std::size_t op = 0; op < kReduceOps; ++op)
        all.found[type][op] = kernels::find_reduce(static_cast<DType>(type), static_cast<ReduceOp>(op));
    }
    return all;
  }();
  return kAll.found;
}

Call call_of(const Request& request, const GroupView& group, UnevenChunks& chunks) {
  device::look_for_driver();
  if (static_cast<std::size_t>(request.verb) >= kVerbs) {
    throw Error(ErrorCode::invalid_argument, "there is no verb " + std::to_string(static_cast<int>(request.verb)));
  }
  return Checker(request, group, chunks).check();
}

}  // namespace tutti::engine

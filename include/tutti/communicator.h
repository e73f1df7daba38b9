// The communicator: a group of ranks that call the same verbs in the same order.
//
// Buffers are arrays, vectors, spans or Symmetric; their lengths must fit the verb, and a call that cannot be carried
// out as written throws tutti::Error before anything moves. Every verb has a blocking form and an _async one that
// returns a Work; any number of async calls may be under way, and their buffers are the library's until they have
// ended. docs/api.md shows every verb with a picture.
//
// Threads: one thread at a time calls into a communicator, its Works included; which thread may change. Two things are
// free: abort(), and while one thread waits for a Work, another may start async calls. Different
// communicators are independent: threads may use them at once, in any interleaving. init(), split(), subgroup(),
// duplicate() and create_group() are calls like others: one thread at a time per (parent) communicator. A child that a
// rank forks is refused by every call; dropping its copies there leaves the rank as it is.
//
// Every call ends with an error when nothing has moved for Options::timeout. A call that fails after it began throws
// tutti::Error and aborts the communicator: later calls throw Error(aborted) with the first cause.
//
// Buffers are ordinary memory, or symmetric memory from allocate(), which every rank of the host can reach: verbs
// notice it by address and then run without intermediate copies. Any mixture works.
//
// In place means that the parts which input and output share are the same memory; other overlap is refused:
//   all_reduce, broadcast, reduce, scan, exclusive_scan, all_to_all: output is input;
//   all_gather, and gather at the root: input is this rank's chunk of output;
//   reduce_scatter, and scatter at the root: output is this rank's chunk of input.
// Buffers that a verb does not use on this rank (output of a reduce elsewhere than at the root) are left alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/counters.h"
#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/request.h"
#include "tutti/trace.h"
#include "tutti/types.h"
#include "tutti/work.h"

namespace tutti {

namespace engine {
class Engine;
}  // namespace engine

// How far ranks check that they make the same call. quick: every message is checked before it lands, at no cost; a rank
// that meets another call's message keeps its output, others may not. full: one more round before every collective, and
// no rank's buffers are touched unless all ranks make the same call.
enum class Check : unsigned char { quick, full };

struct Options {
  // The operand order of every reduction depends only on the group: the same bits whatever the size, the algorithm or
  // the transport. Turned off, algorithms with other orders may be named below.
  bool deterministic = true;
  std::chrono::milliseconds timeout{60'000};  // without any movement
  // Runs the algorithm of this name for every verb that has one, instead of the chosen one; empty = choose.
  std::string algorithm;                               // all ranks alike
  Check check = Check::quick;                          // all ranks alike
  TransportKind transport = TransportKind::automatic;  // all ranks alike
  // Threads of a rank that carry a call of 2 MB or more over TCP at once, a part of it each: 1 to 4. 0: as many as
  // every host has cores for each of its ranks, where ranks share no memory; among more than 16 ranks fewer.
  int tcp_threads = 0;  // all ranks alike
  // Schedules of one's own, as verb=file,...: the programs of such a file, in the JSON that `tutti show --json` writes,
  // run wherever the verb, the number of ranks and the root are theirs. They are verified first, and refused if wrong.
  std::string schedule;  // all ranks alike
  // Every program is verified, for all ranks, before it first runs: for those who write algorithms or doubt ours.
  bool verify = false;
};

// Of the GPUs that this process sees, the one of its rank: for Communicator::allocate_device.
inline constexpr int kOwnDevice = -1;

class TUTTI_API Communicator {
 public:
  explicit Communicator(std::unique_ptr<engine::Engine> engine);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  // False once it was closed or moved from, where split() left this rank out, and in a child that the rank forked:
  // calls throw then. Such a child may join a group of its own.
  bool valid() const;
  // Leaves the group, as the destructor does: at once or, where Works are under way, which go on, when the last of them
  // was waited for or dropped. Where they shall not go on: abort() first.
  void close();
  // By any thread, while others are in calls: those calls fail soon with Error(aborted), and so do later ones. The
  // other ranks hear of it when a call of this rank has failed, or when it leaves.
  void abort();

  int rank() const;
  int size() const;

  // ---- Verbs on vectors: every rank has `input` of the same length, results have the same length.

  // output[i] = op over all ranks of input[i].
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void all_reduce(const In& input, Out&& output, const Op& op = ReduceOp::sum) {
    run(request(Verb::all_reduce, input, output, op));
  }
  template <Writable Buffer>
  void all_reduce(Buffer&& buffer, const Op& op = ReduceOp::sum) {
    run(request(Verb::all_reduce, buffer, buffer, op));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work all_reduce_async(In&& input, Out&& output, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::all_reduce, input, output, op));
  }
  template <Writable Buffer>
  requires Lasting<Buffer>
  [[nodiscard]] Work all_reduce_async(Buffer&& buffer, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::all_reduce, buffer, buffer, op));
  }

  // At the root: output[i] = op over all ranks of input[i]. Elsewhere output is left alone and may be empty.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void reduce(const In& input, Out&& output, int root, const Op& op = ReduceOp::sum) {
    run(request(Verb::reduce, input, output, op, root));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work reduce_async(In&& input, Out&& output, int root, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::reduce, input, output, op, root));
  }

  // Every rank's buffer becomes root's.
  template <Writable Buffer>
  void broadcast(Buffer&& buffer, int root) {
    run(request(Verb::broadcast, buffer, buffer, ReduceOp::sum, root));
  }
  template <Writable Buffer>
  requires Lasting<Buffer>
  [[nodiscard]] Work broadcast_async(Buffer&& buffer, int root) {
    return submit(request(Verb::broadcast, buffer, buffer, ReduceOp::sum, root));
  }
  // Every rank's output becomes root's input; elsewhere input is not looked at.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void broadcast(const In& input, Out&& output, int root) {
    run(request(Verb::broadcast, input, output, ReduceOp::sum, root));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work broadcast_async(In&& input, Out&& output, int root) {
    return submit(request(Verb::broadcast, input, output, ReduceOp::sum, root));
  }

  // output[i] = op over ranks 0 .. this one of input[i].
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void scan(const In& input, Out&& output, const Op& op = ReduceOp::sum) {
    run(request(Verb::scan, input, output, op));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work scan_async(In&& input, Out&& output, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::scan, input, output, op));
  }
  // output[i] = op over the ranks before this one of input[i]; rank 0's output is left alone.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void exclusive_scan(const In& input, Out&& output, const Op& op = ReduceOp::sum) {
    run(request(Verb::exclusive_scan, input, output, op));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work exclusive_scan_async(In&& input, Out&& output, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::exclusive_scan, input, output, op));
  }

  // ---- Verbs on chunks: one buffer holds a chunk for every rank, p times as long as the other.

  // output = the inputs of all ranks, one behind the other.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void all_gather(const In& input, Out&& output) { run(request(Verb::all_gather, input, output)); }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work all_gather_async(In&& input, Out&& output) {
    return submit(request(Verb::all_gather, input, output));
  }

  // At the root: output = the inputs of all ranks. Elsewhere output is left alone and may be empty.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void gather(const In& input, Out&& output, int root) {
    run(request(Verb::gather, input, output, ReduceOp::sum, root));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work gather_async(In&& input, Out&& output, int root) {
    return submit(request(Verb::gather, input, output, ReduceOp::sum, root));
  }

  // output = this rank's chunk of root's input; elsewhere input is not looked at and may be empty.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void scatter(const In& input, Out&& output, int root) {
    run(request(Verb::scatter, input, output, ReduceOp::sum, root));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work scatter_async(In&& input, Out&& output, int root) {
    return submit(request(Verb::scatter, input, output, ReduceOp::sum, root));
  }

  // output[i] = op over all ranks of this rank's chunk of their inputs.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void reduce_scatter(const In& input, Out&& output, const Op& op = ReduceOp::sum) {
    run(request(Verb::reduce_scatter, input, output, op));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work reduce_scatter_async(In&& input, Out&& output, const Op& op = ReduceOp::sum) {
    return submit(request(Verb::reduce_scatter, input, output, op));
  }

  // Chunk r of output = this rank's chunk of rank r's input.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void all_to_all(const In& input, Out&& output) { run(request(Verb::all_to_all, input, output)); }
  template <Writable Buffer>
  void all_to_all(Buffer&& buffer) {
    run(request(Verb::all_to_all, buffer, buffer));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work all_to_all_async(In&& input, Out&& output) {
    return submit(request(Verb::all_to_all, input, output));
  }
  template <Writable Buffer>
  requires Lasting<Buffer>
  [[nodiscard]] Work all_to_all_async(Buffer&& buffer) { return submit(request(Verb::all_to_all, buffer, buffer)); }

  // ---- The same with chunks of different lengths. `parts` are the chunks, one per rank, of the buffer that holds
  // them all: {counts} or {counts, displacements}, in elements. The counts are read before the call returns.

  // Every rank passes the counts of all ranks.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void all_gather_v(const In& input, Out&& output, const Parts& parts) {
    run(uneven(request(Verb::all_gather, input, output), {}, parts));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work all_gather_v_async(In&& input, Out&& output, const Parts& parts) {
    return submit(uneven(request(Verb::all_gather, input, output), {}, parts));
  }
  // Only the root's output and parts are looked at.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void gather_v(const In& input, Out&& output, const Parts& parts, int root) {
    run(uneven(request(Verb::gather, input, output, ReduceOp::sum, root), {}, parts));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work gather_v_async(In&& input, Out&& output, const Parts& parts, int root) {
    return submit(uneven(request(Verb::gather, input, output, ReduceOp::sum, root), {}, parts));
  }
  // Only the root's input and parts are looked at.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void scatter_v(const In& input, const Parts& parts, Out&& output, int root) {
    run(uneven(request(Verb::scatter, input, output, ReduceOp::sum, root), parts, {}));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work scatter_v_async(In&& input, const Parts& parts, Out&& output, int root) {
    return submit(uneven(request(Verb::scatter, input, output, ReduceOp::sum, root), parts, {}));
  }
  // Every rank passes the same counts.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void reduce_scatter_v(const In& input, const Parts& parts, Out&& output, const Op& op = ReduceOp::sum) {
    run(uneven(request(Verb::reduce_scatter, input, output, op), parts, {}));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work reduce_scatter_v_async(In&& input, const Parts& parts, Out&& output,
                                            const Op& op = ReduceOp::sum) {
    return submit(uneven(request(Verb::reduce_scatter, input, output, op), parts, {}));
  }
  // What rank a sends to rank b must be as long as what b expects from a.
  template <Readable In, Writable Out>
  requires SameElements<In, Out>
  void all_to_all_v(const In& input, const Parts& sent, Out&& output, const Parts& received) {
    run(uneven(request(Verb::all_to_all, input, output), sent, received));
  }
  template <Lasting In, Writable Out>
  requires SameElements<In, Out> && Lasting<Out>
  [[nodiscard]] Work all_to_all_v_async(In&& input, const Parts& sent, Out&& output, const Parts& received) {
    return submit(uneven(request(Verb::all_to_all, input, output), sent, received));
  }

  // No rank returns before all have called.
  void barrier() { run({.verb = Verb::barrier}); }
  [[nodiscard]] Work barrier_async() { return submit({.verb = Verb::barrier}); }

  // ---- Messages. Tags are 0 .. 2^31 - 1; a receive may leave source (kAnySource), tag (kAnyTag) or both open, and
  // says in Received what it took.
  //
  // Messages of one source and tag are received in the order they were sent. A message goes to the first receive, in
  // the order they were made, that its source and tag fit. Among several sources kAnySource serves each in its turn.
  // Count and type must agree: otherwise both ends fail with Error(mismatch) that says what each called, and nothing
  // has been written. recv_up_to() also takes shorter messages than its buffer has room for, and Received says how much
  // came; the rest of the buffer is left alone.
  //
  // A message that nobody waits for stays with its sender, whose send lasts until it is received (the smallest, and
  // what the transport's buffers hold, may be taken earlier): two ranks that both send first and receive later need
  // the async forms, send_recv or a Batch. Only a message that lies before one that is waited for, from the same
  // source with another tag, is taken out of the way, into memory of the receiver. One to oneself is copied at once.
  //
  // A receive fails when its source has left the group, a receive from any source when all others have. If a rank
  // dies, every call under way fails and names it, whomever it waits for. A receive that is the first of those which
  // wait for its source fails when it has waited for Options::timeout.

  template <Readable Buffer>
  void send(const Buffer& buffer, int peer, int tag = 0) {
    run(message(Direction::send, buffer, peer, tag));
  }
  template <Lasting Buffer>
  [[nodiscard]] Work send_async(Buffer&& buffer, int peer, int tag = 0) {
    return submit(message(Direction::send, buffer, peer, tag));
  }
  template <Writable Buffer>
  Received recv(Buffer&& buffer, int source, int tag = 0) {
    return run(message(Direction::receive, buffer, source, tag));
  }
  template <Writable Buffer>
  requires Lasting<Buffer>
  [[nodiscard]] Work recv_async(Buffer&& buffer, int source, int tag = 0) {
    return submit(message(Direction::receive, buffer, source, tag));
  }
  template <Writable Buffer>
  Received recv_up_to(Buffer&& buffer, int source, int tag = 0) {
    return run(up_to(message(Direction::receive, buffer, source, tag)));
  }
  template <Writable Buffer>
  requires Lasting<Buffer>
  [[nodiscard]] Work recv_up_to_async(Buffer&& buffer, int source, int tag = 0) {
    return submit(up_to(message(Direction::receive, buffer, source, tag)));
  }
  // Both at once: two ranks that do so never wait for each other in vain. The buffers must not overlap.
  template <Readable In, Writable Out>
  Received send_recv(const In& sent, int destination, Out&& received, int source, int tag = 0) {
    return exchange(message(Direction::send, sent, destination, tag),
                    message(Direction::receive, received, source, tag));
  }
  // Waits for a message that such a receive would take, and leaves it there; count is in elements of `element`.
  // Error(invalid_argument), which harms nothing, where the message is no whole number of them.
  Received probe(int source, int tag = 0, Element element = DType::uint8);
  // The same without waiting: nothing where no such message has come yet. Takes messages further, so that asking again
  // and again finds what was sent. A source that has left is no error here.
  std::optional<Received> iprobe(int source, int tag = 0, Element element = DType::uint8);

  // ---- Any verb, with an element type known at run time.

  Received run(const Request& request);
  // send_recv: a send and a receive.
  Received exchange(const Request& sent, const Request& received);
  [[nodiscard]] Work submit(const Request& request);
  // Starts them together, in this order: messages may wait for each other (batched point-to-point). All are checked
  // before any is started, so a bad one throws and leaves the others undone.
  [[nodiscard]] std::vector<Work> submit_all(std::span<const Request> requests);

  // ---- Groups. Collective over this communicator; options are inherited, and the timeout as it is set now. The new
  // group has calls, errors and a lifetime of its own, and its errors name its own ranks. A call that fails does so on
  // all ranks, names a rank of this group, and leaves this communicator as it was unless that has failed itself.

  // One group per color, ranked by (key, rank). A negative color joins none: the result is not valid() then.
  Communicator split(int color, int key = 0);
  // The group of these ranks, in this order; all ranks pass the same list. Not valid() on ranks outside it.
  Communicator subgroup(std::span<const int> ranks);
  // The same ranks again, with calls of their own.
  Communicator duplicate();

  // These are not collective over this communicator.

  // As subgroup(), but only the ranks of the list call, each with the same list and tag; others neither call nor wait.
  // Tags (0 .. 2^31 - 2) keep apart groups that are being made at the same time, and have nothing to do with those of
  // messages. A call that fails does so on all members, and names a rank of this group.
  Communicator create_group(std::span<const int> ranks, int tag = 0);
  // A group of this rank alone, without a word to any other; also where this communicator has failed.
  Communicator self();
  // By rank: the ranks that these had in the communicator which this one was made of; empty where it was made of none.
  std::vector<int> parent_ranks() const;

  // ---- Memory and settings.

  // Symmetric memory, zeroed, aligned to 64 bytes. Collective: every rank asks for the same bytes at the same point.
  std::shared_ptr<void> allocate_bytes(std::size_t bytes);
  template <class T>
  Symmetric<T> allocate(std::size_t count) {
    if (count > ~std::size_t{0} / sizeof(T)) throw Error(ErrorCode::invalid_argument, "allocate: too many elements");
    return {allocate_bytes(count * sizeof(T)), count};
  }

  // Memory of a GPU, zeroed: collective as allocate() is, and fails on all ranks or on none. Ranks that share the
  // device, or whose devices reach each other, have opened each other's part when it returns, so that no call has to;
  // `device` counts as the CUDA driver does, and kOwnDevice deals those of a host out among its ranks.
  std::shared_ptr<void> allocate_device_bytes(std::size_t bytes, int device = 0);
  template <class T>
  DeviceMemory<T> allocate_device(std::size_t count, int device = 0) {
    if (count > ~std::size_t{0} / sizeof(T))
      throw Error(ErrorCode::invalid_argument, "allocate_device: too many elements");
    return {allocate_device_bytes(count * sizeof(T), device), count};
  }
  // The stream of a GPU (cudaStream_t) that the calls which follow are ordered with, unless they name another: see
  // Request::stream. nullptr: none. Groups that are made of this one begin without.
  void set_stream(void* stream);
  // The same, but nothing that comes into the stream later waits for async calls: their output is there when their
  // Works have ended.
  void follow_stream(void* stream);
  void* stream() const;

  // The deadline of the calls that follow, until it is set again: for a single call that may take longer, or must not.
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const;

  // The algorithm that the last blocking collective of this rank ran.
  std::string_view last_algorithm() const;
  // By rank, the number of its host, counted in the order of the hosts' first ranks.
  std::vector<int> hosts() const;
  // Whether algorithms are chosen by costs that `tutti tune` has measured; by built-in ones otherwise. All ranks alike.
  bool tuned() const;

  // Calls, bytes and waiting so far, by verb. May be asked by any thread.
  Counters counters() const;
  // What this rank records (tutti/trace.h).
  Trace trace() const;
  // From now on every call is timed, which takes two readings of the clock and a lock for each: see Counters.
  void time_calls();

  // Microseconds that the call is expected to take: by the algorithm that would be chosen for it, at the costs of this
  // group (`tutti tune` measures them). Asks no other rank and supposes that their buffers are like this one's, and of
  // a v-variant that chunks which this rank does not know are as long as its own. Of buffers on a GPU: of a blocking
  // call, with what the device takes of it, and 0 where `tutti tune` has found no device. To be called at leisure: it
  // prices the schedule anew each time.
  double predicted_us(const Request& request) const;
  // The same of exchange().
  double predicted_us(const Request& sent, const Request& received) const;

 private:
  template <class In, class Out>
  static Request request(Verb verb, const In& input, Out& output, const Op& op = ReduceOp::sum, int root = 0) {
    return {.verb = verb,
            .input = std::ranges::data(input),
            .output = std::ranges::data(output),
            .input_count = std::ranges::size(input),
            .output_count = std::ranges::size(output),
            .element = Element::of<ElementOf<In>>(),
            .op = op,
            .root = root};
  }
  static Request uneven(Request request, const Parts& input, const Parts& output) {
    request.uneven = true;
    request.input_parts = input;
    request.output_parts = output;
    return request;
  }
  template <class Buffer>
  static Request message(Direction direction, Buffer& buffer, int peer, int tag) {
    Request request{.verb = Verb::send_recv};
    const std::size_t count = std::ranges::size(buffer);
    if constexpr (Writable<Buffer&>) {
      if (direction == Direction::receive) request.output = std::ranges::data(buffer);
    }
    if (direction == Direction::send) request.input = std::ranges::data(buffer);
    (direction == Direction::send ? request.input_count : request.output_count) = count;
    request.element = Element::of<ElementOf<Buffer>>();
    request.direction = direction;
    request.peer = peer;
    request.tag = tag;
    return request;
  }
  static Request up_to(Request request) {
    request.up_to = true;
    return request;
  }
  friend class Batch;
  friend struct Tuner;
  engine::Engine& engine() const;

  std::shared_ptr<engine::Engine> engine_;  // Works under way hold it, too
};

}  // namespace tutti

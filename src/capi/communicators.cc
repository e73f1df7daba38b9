// Communicators: meeting, leaving, what they know, groups and symmetric memory.
#include <algorithm>
#include <cstring>

#include "capi/errors.h"
#include "capi/handles.h"
#include "tutti/init.h"

using namespace tutti::capi;

namespace {

tutti_options defaults() {
  const tutti::Options options;
  tutti_options known{};
  known.size = sizeof known;
  known.deterministic = options.deterministic ? 1 : 0;
  known.timeout_ms = options.timeout.count();
  known.check = static_cast<tutti_check>(options.check);
  known.transport = static_cast<tutti_transport>(options.transport);
  known.rank = known.world_size = -1;
  return known;
}

// Structs grow by whole words at their end, so that no new member lies where an older caller's struct was padded.
constexpr size_t kWord = sizeof(size_t);
static_assert(sizeof(tutti_options) % kWord == 0);

// The options as this library knows them: what an older caller's struct lacks has its default; what a newer caller's
// has more must not have been touched.
tutti_options known_of(const tutti_options* given) {
  tutti_options known = defaults();
  if (given == nullptr) return known;
  const size_t size = given->size;
  constexpr size_t kMost = 4096;  // no options will ever be that large
  if (size < kWord || size % kWord != 0 || size > kMost)
    reject("tutti_init: options.size is " + std::to_string(size) +
           "; fill the options in with tutti_options_default before you change some");
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof known; i < size; ++i) {
    if (bytes[i] != 0)
      reject("tutti_init: options that this library, version " + std::string(tutti_version()) +
             ", does not know; it is older than the program");
  }
  std::memcpy(&known, given, std::min(size, sizeof known));
  return known;
}

// Memory of the communicator's, until it is given back.
void* keep(Group& group, std::shared_ptr<void> made) {
  void* const address = made.get();
  group.memory.emplace(address, std::move(made));
  return address;
}

std::string text(const char* string) { return string == nullptr ? "" : string; }

tutti::Options options_of(const tutti_options& given) {
  tutti::Options options;
  options.deterministic = given.deterministic != 0;
  options.timeout = std::chrono::milliseconds(given.timeout_ms);
  options.algorithm = text(given.algorithm);
  if (given.check != TUTTI_CHECK_QUICK && given.check != TUTTI_CHECK_FULL)
    reject("tutti_init: there is no check " + std::to_string(static_cast<int>(given.check)));
  options.check = static_cast<tutti::Check>(given.check);
  const auto transport = static_cast<int>(given.transport);
  if (transport < 0 || transport >= static_cast<int>(tutti::kTransportKinds))
    reject("tutti_init: there is no transport " + std::to_string(transport));
  options.transport = static_cast<tutti::TransportKind>(transport);
  return options;
}

tutti::Launch launch_of(const tutti_options& given) {
  tutti::Launch launch;
  if (given.rank >= 0) launch.rank = given.rank;
  if (given.world_size >= 0) launch.size = given.world_size;
  launch.rendezvous = text(given.rendezvous);
  launch.job = text(given.job);
  launch.token_file = text(given.token_file);
  launch.interface = text(given.network_interface);
  return launch;
}

// The caller's store, whose functions are C.
class ForeignStore : public tutti::Store {
 public:
  explicit ForeignStore(const tutti_store& store) : store_(store) {}

  void set(const std::string& key, const std::string& value, std::chrono::milliseconds timeout) override {
    check(store_.set(store_.context, key.c_str(), value.c_str(), timeout.count()));
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    char value[4096] = "";
    check(store_.get(store_.context, key.c_str(), value, sizeof value, timeout.count()));
    value[sizeof value - 1] = 0;
    return value;
  }
  void remove(const std::string& key) override { check(store_.remove(store_.context, key.c_str())); }

 private:
  static void check(const char* words) {
    if (words != nullptr) throw tutti::Error(tutti::ErrorCode::system, std::string("the store: ") + words);
  }

  tutti_store store_;
};

std::shared_ptr<tutti::Store> store_of(const tutti_store* store) {
  place(store, "tutti_init_with_store: store");
  if (store->size != sizeof(tutti_store))
    reject("tutti_init_with_store: store.size is " + std::to_string(store->size) + "; set it to sizeof(tutti_store)");
  if (store->set == nullptr || store->get == nullptr || store->remove == nullptr)
    reject("tutti_init_with_store: set, get and remove are needed, and one of them is NULL");
  return std::make_shared<ForeignStore>(*store);
}

std::span<const int> list_of(const int* ranks, int count, const std::string& where) {
  if (count < 0) reject(where + ": count is " + std::to_string(count));
  if (count > 0) place(ranks, (where + ": ranks").c_str());
  return {ranks, static_cast<size_t>(count)};
}

// A communicator made of another one.
template <class Make>
tutti_code make_child(tutti_comm comm, tutti_comm* child, const char* what, Make&& make) noexcept {
  return guarded([&] {
    place(child, what) = nullptr;
    *child = handle_of(make(communicator_of(comm)));
  });
}

}  // namespace

extern "C" {

tutti_code tutti_options_default(tutti_options* options, size_t size) {
  return guarded([&] {
    place(options, "tutti_options_default: options");
    if (size < kWord || size % kWord != 0)
      reject("tutti_options_default: size is " + std::to_string(size) + "; pass sizeof(tutti_options)");
    tutti_options known = defaults();
    known.size = size;
    std::memset(static_cast<void*>(options), 0, size);
    std::memcpy(static_cast<void*>(options), &known, std::min(size, sizeof known));
  });
}

tutti_code tutti_init(const tutti_options* options, tutti_comm* comm) {
  return guarded([&] {
    place(comm, "tutti_init: comm") = nullptr;
    const tutti_options known = known_of(options);
    *comm = handle_of(tutti::init(options_of(known), launch_of(known)));
  });
}

tutti_code tutti_init_with_store(const tutti_options* options, const tutti_store* store, tutti_comm* comm) {
  return guarded([&] {
    place(comm, "tutti_init_with_store: comm") = nullptr;
    const tutti_options known = known_of(options);
    *comm = handle_of(tutti::init_with_store(options_of(known), launch_of(known), store_of(store)));
  });
}

tutti_code tutti_comm_free(tutti_comm* comm) {
  return guarded([&] {
    tutti_comm& freed = place(comm, "tutti_comm_free: comm");
    if (freed == nullptr) return;
    group_of(freed).communicator.close();
    freed->group.reset();
    freed = nullptr;
  });
}

tutti_code tutti_abort(tutti_comm comm) {
  return guarded([&] { communicator_of(comm).abort(); });
}

tutti_code tutti_rank(tutti_comm comm, int* rank) {
  return guarded([&] { place(rank, "tutti_rank: rank") = communicator_of(comm).rank(); });
}

tutti_code tutti_size(tutti_comm comm, int* size) {
  return guarded([&] { place(size, "tutti_size: size") = communicator_of(comm).size(); });
}

tutti_code tutti_set_stream(tutti_comm comm, void* stream) {
  return guarded([&] { communicator_of(comm).set_stream(stream); });
}

tutti_code tutti_follow_stream(tutti_comm comm, void* stream) {
  return guarded([&] { communicator_of(comm).follow_stream(stream); });
}

tutti_code tutti_get_stream(tutti_comm comm, void** stream) {
  return guarded([&] { place(stream, "tutti_get_stream: stream") = communicator_of(comm).stream(); });
}

tutti_code tutti_set_timeout(tutti_comm comm, int64_t timeout_ms) {
  return guarded([&] { communicator_of(comm).set_timeout(std::chrono::milliseconds(timeout_ms)); });
}

tutti_code tutti_get_timeout(tutti_comm comm, int64_t* timeout_ms) {
  return guarded([&] { place(timeout_ms, "tutti_get_timeout: timeout_ms") = communicator_of(comm).timeout().count(); });
}

tutti_code tutti_tuned(tutti_comm comm, int* tuned) {
  return guarded([&] { place(tuned, "tutti_tuned: tuned") = communicator_of(comm).tuned() ? 1 : 0; });
}

tutti_code tutti_counters(tutti_comm comm, tutti_verb verb, tutti_verb_counters* counters) {
  return guarded([&] {
    tutti_verb_counters& result = place(counters, "tutti_counters: counters");
    if (static_cast<std::size_t>(verb) >= tutti::kVerbs)
      throw tutti::Error(tutti::ErrorCode::invalid_argument,
                         "tutti_counters: there is no verb " + std::to_string(verb));
    const tutti::VerbCounters found = communicator_of(comm).counters()[static_cast<tutti::Verb>(verb)];
    result = to_c(found);
  });
}

tutti_code tutti_last_algorithm(tutti_comm comm, const char** name) {
  return guarded([&] {
    place(name, "tutti_last_algorithm: name") = "";
    Group& group = group_of(comm);
    group.last_algorithm = group.communicator.last_algorithm();
    *name = group.last_algorithm.c_str();
  });
}

tutti_code tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* child) {
  return make_child(comm, child, "tutti_comm_split: child",
                    [&](tutti::Communicator& parent) { return parent.split(color, key); });
}

tutti_code tutti_comm_subgroup(tutti_comm comm, const int* ranks, int count, tutti_comm* child) {
  return make_child(comm, child, "tutti_comm_subgroup: child", [&](tutti::Communicator& parent) {
    return parent.subgroup(list_of(ranks, count, "tutti_comm_subgroup"));
  });
}

tutti_code tutti_comm_create_group(tutti_comm comm, const int* ranks, int count, int tag, tutti_comm* child) {
  return make_child(comm, child, "tutti_comm_create_group: child", [&](tutti::Communicator& parent) {
    return parent.create_group(list_of(ranks, count, "tutti_comm_create_group"), tag);
  });
}

tutti_code tutti_comm_self(tutti_comm comm, tutti_comm* child) {
  return make_child(comm, child, "tutti_comm_self: child", [](tutti::Communicator& parent) { return parent.self(); });
}

tutti_code tutti_parent_ranks(tutti_comm comm, int* ranks) {
  return guarded([&] {
    const std::vector<int> known = communicator_of(comm).parent_ranks();
    if (known.empty()) reject("tutti_parent_ranks: this communicator was not made of another one");
    std::copy(known.begin(), known.end(), &place(ranks, "tutti_parent_ranks: ranks"));
  });
}

tutti_code tutti_comm_duplicate(tutti_comm comm, tutti_comm* child) {
  return make_child(comm, child, "tutti_comm_duplicate: child",
                    [](tutti::Communicator& parent) { return parent.duplicate(); });
}

tutti_code tutti_alloc(tutti_comm comm, size_t bytes, void** memory) {
  return guarded([&] {
    place(memory, "tutti_alloc: memory") = nullptr;
    *memory = keep(group_of(comm), communicator_of(comm).allocate_bytes(bytes));
  });
}

tutti_code tutti_alloc_device(tutti_comm comm, size_t bytes, int device, void** memory) {
  return guarded([&] {
    place(memory, "tutti_alloc_device: memory") = nullptr;
    *memory = keep(group_of(comm), communicator_of(comm).allocate_device_bytes(bytes, device));
  });
}

tutti_code tutti_free(tutti_comm comm, void* memory) {
  return guarded([&] {
    Group& group = group_of(comm);
    if (memory != nullptr && group.memory.erase(memory) == 0)
      reject("tutti_free: tutti_alloc gave no such memory for this communicator, or it was given back already");
  });
}

tutti_code tutti_memory_keep(tutti_comm comm, void* memory, tutti_memory* owner) {
  return guarded([&] {
    place(owner, "tutti_memory_keep: owner") = nullptr;
    Group& group = group_of(comm);
    const auto found = group.memory.find(memory);
    if (found == group.memory.end())
      reject("tutti_memory_keep: tutti_alloc gave no such memory for this communicator, or it was given back already");
    *owner = new tutti_memory_s{found->second};
    group.memory.erase(found);
  });
}

tutti_code tutti_memory_free(tutti_memory* owner) {
  return guarded([&] { delete_handle(owner, "tutti_memory_free: owner"); });
}

}  // extern "C"

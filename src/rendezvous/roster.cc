#include "rendezvous/roster.h"

#include <algorithm>
#include <map>

#include "rendezvous/address.h"
#include "rendezvous/overlay.h"

namespace tutti::rendezvous {
namespace {

Verdict mismatch(int peer, std::string text) { return {ErrorCode::mismatch, peer, std::move(text)}; }

Verdict differs(std::size_t rank, const Member& member, std::string_view what, std::string_view its,
                std::string_view ours, std::string_view remedy) {
  std::string text = in_words(static_cast<int>(rank), member) + " wants ";
  text.append(what).append(its).append(", rank 0 ").append(what).append(ours).append("; ").append(remedy);
  return mismatch(static_cast<int>(rank), std::move(text));
}

// Ranks of one network namespace reach each other on loopback; all others do not.
std::optional<Verdict> judge_loopback(const std::vector<Join>& joins) {
  for (std::size_t rank = 0; rank < joins.size(); ++rank) {
    const Member& member = joins[rank].member;
    if (!is_loopback(member.endpoint)) continue;
    for (std::size_t other = 0; other < joins.size(); ++other) {
      const Member& far = joins[other].member;
      if (network_of(far.host_id) == network_of(member.host_id)) continue;
      return mismatch(static_cast<int>(rank),
                      in_words(static_cast<int>(rank), member) + " can only be reached at " + member.endpoint +
                          ", which is loopback, but " + in_words(static_cast<int>(other), far) +
                          " runs elsewhere; set TUTTI_INTERFACE to an address or interface that other hosts reach, or "
                          "fix /etc/hosts if the name of the rendezvous host resolves to loopback there");
    }
  }
  return std::nullopt;
}

Verdict other_build(std::size_t rank, const std::vector<Join>& joins) {
  return mismatch(static_cast<int>(rank),
                  in_words(static_cast<int>(rank), joins[rank].member) + " runs another build of Tutti than " +
                      in_words(0, joins[0].member) +
                      ": their tables of algorithms differ, so that they would run different programs; install one "
                      "build on all hosts");
}

std::optional<Verdict> judge_memory(const std::vector<Join>& joins) {
  for (std::size_t rank = 1; rank < joins.size(); ++rank) {
    if (joins[rank].member.host_id == joins[0].member.host_id) continue;
    const std::string why = why_apart(joins[rank].member.host_id, joins[0].member.host_id);
    return mismatch(static_cast<int>(rank), "shared memory was asked for (TUTTI_TRANSPORT=shm), but " +
                                                in_words(static_cast<int>(rank), joins[rank].member) + " and " +
                                                in_words(0, joins[0].member) +
                                                " share none: " + (why.empty() ? "they run on different hosts" : why) +
                                                "; set TUTTI_TRANSPORT=auto");
  }
  return std::nullopt;
}

void write(Writer& writer, const Member& member) {
  writer.text(member.host).text(member.host_id).text(member.endpoint).text(member.memory).i32(member.pid);
  writer.u32(static_cast<std::uint32_t>(member.cores.size()));
  for (const std::uint64_t word : member.cores) writer.u64(word);
  writer.i32(member.package).i32(member.cache);
}

bool is_control(char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }

// Words that people are shown do not move their cursor.
std::string shown(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

bool is_place(const Endpoint& endpoint, bool on_host) {
  if (endpoint.empty()) return true;
  const auto address = parse(endpoint);
  return address && address->is_unix == on_host && (on_host || address->port > 0);
}

Member read_member(Reader& reader) {
  constexpr std::uint32_t kMostWords = 1024;  // for 65536 cores
  Member member;
  member.host = shown(reader.text());
  member.host_id = shown(reader.text());
  member.endpoint = reader.text();
  member.memory = reader.text();
  member.pid = reader.i32();
  const std::uint32_t words = reader.u32();
  const bool good =
      is_place(member.endpoint, false) && is_place(member.memory, true) && member.pid > 0 && words <= kMostWords;
  if (!good) reader.refuse();
  for (std::uint32_t i = 0; i < words && reader.ok(); ++i) member.cores.push_back(reader.u64());
  member.package = reader.i32();
  member.cache = reader.i32();
  if (member.package < -1 || member.cache < -1) reader.refuse();
  return member;
}

TransportKind read_wanted(Reader& reader) {
  const std::uint8_t wanted = reader.u8();
  if (wanted >= kTransportKinds) reader.refuse();
  return static_cast<TransportKind>(wanted);
}

int read_channels(Reader& reader) {
  const int channels = reader.i32();
  if (channels < 1 || channels > static_cast<int>(kMostChannels)) reader.refuse();
  return channels;
}

int read_rank_or_none(Reader& reader) {
  const int rank = reader.i32();
  if (rank < -1) reader.refuse();
  return rank;
}

bool is(const Frame& frame, Word word) { return frame.kind == static_cast<std::uint8_t>(word); }

Bytes frame_of(Word word, const Writer& body) { return frame_of(static_cast<std::uint8_t>(word), body); }

template <class T>
std::optional<T> if_complete(const Reader& reader, T value) {
  return reader.complete() ? std::optional<T>(std::move(value)) : std::nullopt;
}

}  // namespace

std::string make_host_id(const std::string& boot, const std::string& network, const std::string& processes, long user) {
  return boot + "/" + network + "/" + processes + "/" + std::to_string(user);
}

std::string network_of(const std::string& host_id) {
  const std::size_t boot = host_id.find('/');
  return host_id.substr(0, boot == std::string::npos ? boot : host_id.find('/', boot + 1));
}

std::string alone_on_host(const std::string& host_id, int rank, const std::string& why) {
  return host_id + "/rank " + std::to_string(rank) + ": " + why;
}

std::string on_part_of_host(const std::string& host_id, const std::string& part) {
  return host_id + "/TUTTI_HOSTID is " + part + " for one of them";
}

std::string why_apart(const std::string& one_id, const std::string& other_id) {
  constexpr std::size_t kFacts = 5;  // boot, network, processes, user, and why it is alone
  const auto facts_of = [](const std::string& id) {
    std::vector<std::string> facts(kFacts);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < kFacts && begin <= id.size(); ++i) {
      const std::size_t end = i + 1 == kFacts ? id.size() : std::min(id.find('/', begin), id.size());
      facts[i] = id.substr(begin, end - begin);
      begin = end + 1;
    }
    return facts;
  };
  const auto one = facts_of(one_id), other = facts_of(other_id);
  if (one_id == other_id || one[0] != other[0]) return {};
  if (!one[4].empty() || !other[4].empty()) return one[4].empty() ? other[4] : one[4];
  if (one[1] != other[1]) return "their network namespaces differ";
  if (one[2] != other[2]) return "their process namespaces differ";
  return "they belong to different users";
}

bool share_memory(const Roster& roster, int a, int b) {
  if (a == b) return true;
  const auto& members = roster.members;
  const std::string& host = members[static_cast<std::size_t>(a)].host_id;
  const HostMemory memory = host_memory_of(roster.wanted);
  if (memory == HostMemory::never || members[static_cast<std::size_t>(b)].host_id != host) return false;
  const auto is_elsewhere = [&](const Member& member) { return member.host_id != host; };
  return memory == HostMemory::always || std::any_of(members.begin(), members.end(), is_elsewhere);
}

std::vector<int> memory_ranks(const Roster& roster, int rank) {
  std::vector<int> ranks;
  for (int other = 0; other < static_cast<int>(roster.members.size()); ++other) {
    if (share_memory(roster, rank, other)) ranks.push_back(other);
  }
  return ranks;
}

std::vector<Link> links_of(const Roster& roster, int rank) {
  std::vector<Link> links;
  const std::vector<int> near = memory_ranks(roster, rank);
  const bool one_memory = near.size() == roster.members.size();
  const std::vector<int> watched = neighbours_of(rank, static_cast<int>(roster.members.size()));
  for (int peer = 0; peer < static_cast<int>(roster.members.size()); ++peer) {
    if (peer == rank) continue;
    const bool connects = peer < rank;
    if (!one_memory && std::binary_search(watched.begin(), watched.end(), peer))
      links.push_back({Purpose::control, peer, 0, connects});
    if (share_memory(roster, rank, peer) && (rank == near.front() || peer == near.front()))
      links.push_back({Purpose::memory, peer, 0, connects});
  }
  return links;
}

std::optional<Verdict> judge(const std::vector<Join>& joins) {
  for (std::size_t rank = 1; rank < joins.size(); ++rank) {
    if (joins[rank].wanted != joins[0].wanted) {
      return differs(rank, joins[rank].member, "TUTTI_TRANSPORT=", name_of(joins[rank].wanted),
                     name_of(joins[0].wanted), "set it alike on all ranks");
    }
    if (joins[rank].channels != joins[0].channels) {
      return differs(rank, joins[rank].member, "channels: ", std::to_string(joins[rank].channels),
                     std::to_string(joins[0].channels), "run the same program with the same options on all ranks");
    }
    for (std::size_t i = 0; i < std::min(joins[rank].settings.size(), joins[0].settings.size()); ++i) {
      if (joins[rank].settings[i] == joins[0].settings[i]) continue;
      if (joins[0].settings[i].starts_with(kBuild)) return other_build(rank, joins);
      return differs(rank, joins[rank].member, "", joins[rank].settings[i], joins[0].settings[i],
                     "set it alike on all ranks");
    }
  }
  if (joins[0].wanted == TransportKind::shm) return judge_memory(joins);
  return judge_loopback(joins);
}

std::string in_words(int rank, const Member& member) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(member.pid) + " on " + member.host + ")";
}

std::string in_words(Time duration) {
  const long long tenths = (std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() + 50) / 100;
  const std::string whole = std::to_string(tenths / 10);
  return (tenths % 10 == 0 ? whole : whole + "." + std::to_string(tenths % 10)) + " s";
}

Bytes greeting_frame(int keeper) { return frame_of(Word::greeting, Writer().i32(keeper)); }

Bytes frame_of(const Join& join) {
  Writer writer;
  writer.i32(join.size).u8(static_cast<std::uint8_t>(join.wanted)).i32(join.channels);
  write(writer, join.member);
  writer.u32(static_cast<std::uint32_t>(join.settings.size()));
  for (const std::string& setting : join.settings) writer.text(setting);
  return frame_of(Word::join, writer);
}

Bytes frame_of(const Roster& roster) {
  Writer writer;
  writer.u8(static_cast<std::uint8_t>(roster.wanted)).i32(roster.channels).u8(roster.session ? 1 : 0);
  if (roster.session) writer.raw(roster.session->bytes());
  writer.u32(static_cast<std::uint32_t>(roster.members.size()));
  for (const Member& member : roster.members) write(writer, member);
  return frame_of(Word::roster, writer);
}

Bytes frame_of(const Verdict& verdict) {
  Writer writer;
  writer.u8(static_cast<std::uint8_t>(verdict.code)).i32(verdict.peer);
  return frame_of(Word::verdict, writer.text(std::string_view(verdict.text).substr(0, Reader::kMostText)));
}

Bytes frame_of(Word word) { return frame_of(word, Writer()); }

std::optional<int> decode_greeting(const Frame& frame) {
  Reader reader(frame.body);
  const int keeper = read_rank_or_none(reader);
  return is(frame, Word::greeting) ? if_complete(reader, keeper) : std::nullopt;
}

std::optional<Join> decode_join(const Frame& frame) {
  if (!is(frame, Word::join)) return std::nullopt;
  Reader reader(frame.body);
  Join join;
  join.size = reader.i32();
  join.wanted = read_wanted(reader);
  join.channels = read_channels(reader);
  join.member = read_member(reader);
  const std::uint32_t settings = reader.u32();
  for (std::uint32_t i = 0; i < settings && reader.ok(); ++i) join.settings.push_back(shown(reader.text()));
  return if_complete(reader, std::move(join));
}

std::optional<Roster> decode_roster(const Frame& frame) {
  if (!is(frame, Word::roster)) return std::nullopt;
  Reader reader(frame.body);
  Roster roster;
  roster.wanted = read_wanted(reader);
  roster.channels = read_channels(reader);
  const std::uint8_t sessions = reader.u8();
  if (sessions > 1) reader.refuse();
  if (sessions == 1) {
    const auto bytes = reader.raw(Token::kBytes);
    if (!reader.ok()) return std::nullopt;
    roster.session = Token::from_bytes(bytes.first<Token::kBytes>());
  }
  const std::uint32_t size = reader.u32();
  for (std::uint32_t rank = 0; rank < size && reader.ok(); ++rank) roster.members.push_back(read_member(reader));
  return if_complete(reader, std::move(roster));
}

std::optional<Verdict> decode_verdict(const Frame& frame) {
  if (!is(frame, Word::verdict)) return std::nullopt;
  Reader reader(frame.body);
  Verdict verdict;
  verdict.code = read_code(reader);
  verdict.peer = read_rank_or_none(reader);
  verdict.text = shown(reader.text());
  return if_complete(reader, std::move(verdict));
}

}  // namespace tutti::rendezvous

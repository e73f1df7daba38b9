// What ranks and lobby say to each other, frame by frame: whatever is decoded holds to its bounds and survives being
// encoded again.
#include "fuzz/target.h"
#include "rendezvous/address.h"
#include "rendezvous/roster.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;

namespace {

void check_member(const Member& member) {
  check(member.pid > 0, "a process has a number");
  check(member.endpoint.empty() || parse(member.endpoint).has_value(), "an endpoint is one");
  check(member.memory.empty() || is_unix(member.memory), "memory is handed over on the host");
}

Frame again(const Bytes& bytes) {
  FrameReader reader(std::size_t{1} << 30);
  reader.add(bytes);
  return reader.next().value();
}

void look_at(const Frame& frame) {
  if (const auto keeper = decode_greeting(frame)) check(*keeper >= -1, "the keeper is a rank or nobody");
  if (const auto join = decode_join(frame)) {
    check(join->channels >= 1 && join->channels <= static_cast<int>(kMostChannels), "channels");
    check(static_cast<std::size_t>(join->wanted) < tutti::kTransportKinds, "wanted");
    check_member(join->member);
    const auto second = decode_join(again(frame_of(*join)));
    check(second && second->member == join->member && second->settings == join->settings, "a join survives");
  }
  if (const auto roster = decode_roster(frame)) {
    check(roster->channels >= 1 && static_cast<std::size_t>(roster->wanted) < tutti::kTransportKinds, "roster");
    for (const Member& member : roster->members) check_member(member);
    const auto second = decode_roster(again(frame_of(*roster)));
    check(second && second->members == roster->members, "a roster survives");
  }
  if (const auto verdict = decode_verdict(frame)) {
    check(verdict->peer >= -1 && verdict->code <= tutti::ErrorCode::system, "verdict");
    check(decode_verdict(again(frame_of(*verdict))).has_value(), "a verdict survives");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Input input(data, size);
  FrameReader frames(kMostFromMember);
  while (!input.empty()) {
    frames.add(input.bytes(1 + input.number()));
    while (const auto frame = frames.next()) look_at(*frame);
    if (frames.broken()) break;
  }
  return 0;
}

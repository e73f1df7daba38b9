// The enumerators of tutti.h against the lists that the library is generated from: names, order and number, so that
// neither can change alone. Nothing here is run.
#include <iterator>
#include <string_view>

#include "tutti/communicator.h"
#include "tutti/request.h"
#include "tutti/tutti.h"
#include "tutti/types.h"

namespace tutti::capi {
namespace {

struct Enumerator {
  unsigned value;
  std::string_view name;
};
#define NAMED(name) \
  Enumerator { static_cast<unsigned>(name), #name }

constexpr Enumerator kCodes[] = {NAMED(TUTTI_INVALID_ARGUMENT), NAMED(TUTTI_UNSUPPORTED), NAMED(TUTTI_TIMEOUT),
                                 NAMED(TUTTI_PEER_LOST),        NAMED(TUTTI_PEER_FAILED), NAMED(TUTTI_MISMATCH),
                                 NAMED(TUTTI_ABORTED),          NAMED(TUTTI_SYSTEM)};
constexpr Enumerator kTypes[] = {
    NAMED(TUTTI_INT8),    NAMED(TUTTI_INT16),   NAMED(TUTTI_INT32),     NAMED(TUTTI_INT64),      NAMED(TUTTI_UINT8),
    NAMED(TUTTI_UINT16),  NAMED(TUTTI_UINT32),  NAMED(TUTTI_UINT64),    NAMED(TUTTI_FLOAT16),    NAMED(TUTTI_BFLOAT16),
    NAMED(TUTTI_FLOAT32), NAMED(TUTTI_FLOAT64), NAMED(TUTTI_COMPLEX64), NAMED(TUTTI_COMPLEX128), NAMED(TUTTI_BOOLEAN)};
constexpr Enumerator kOps[] = {NAMED(TUTTI_SUM),     NAMED(TUTTI_PRODUCT), NAMED(TUTTI_MINIMUM), NAMED(TUTTI_MAXIMUM),
                               NAMED(TUTTI_AVERAGE), NAMED(TUTTI_BAND),    NAMED(TUTTI_BOR),     NAMED(TUTTI_BXOR),
                               NAMED(TUTTI_LAND),    NAMED(TUTTI_LOR),     NAMED(TUTTI_LXOR)};

constexpr Enumerator kVerbNames[] = {NAMED(TUTTI_ALL_REDUCE), NAMED(TUTTI_BROADCAST),      NAMED(TUTTI_SEND_RECV),
                                     NAMED(TUTTI_REDUCE),     NAMED(TUTTI_SCATTER),        NAMED(TUTTI_GATHER),
                                     NAMED(TUTTI_ALL_GATHER), NAMED(TUTTI_REDUCE_SCATTER), NAMED(TUTTI_ALL_TO_ALL),
                                     NAMED(TUTTI_SCAN),       NAMED(TUTTI_EXCLUSIVE_SCAN), NAMED(TUTTI_BARRIER)};

constexpr Enumerator kTransports[] = {NAMED(TUTTI_TRANSPORT_AUTO), NAMED(TUTTI_TRANSPORT_SHM),
                                      NAMED(TUTTI_TRANSPORT_TCP), NAMED(TUTTI_TRANSPORT_UCX)};

// "TUTTI_PEER_LOST" is "peer_lost".
constexpr bool is_upper_case_of(std::string_view c_name, std::string_view name, std::string_view prefix) {
  if (!c_name.starts_with(prefix) || c_name.size() != prefix.size() + name.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (c_name[prefix.size() + i] != upper) return false;
  }
  return true;
}

template <class Enum, std::size_t N>
constexpr bool agree(const Enumerator (&list)[N], unsigned first, std::string_view prefix = "TUTTI_") {
  for (unsigned i = 0; i < N; ++i) {
    if (list[i].value != first + i) return false;
    if (!is_upper_case_of(list[i].name, name_of(static_cast<Enum>(i)), prefix)) return false;
  }
  return true;
}

#define X(...) +1
static_assert(std::size(kCodes) == 0 TUTTI_ERROR_CODES(X));
#undef X
static_assert(std::size(kTypes) == kDTypes);
// A factor goes with premul_sum, so it has a function instead: tutti_op_premul_sum.
static_assert(std::size(kOps) == kReduceOps - 1 && static_cast<std::size_t>(ReduceOp::premul_sum) == kReduceOps - 1);
static_assert(TUTTI_OK == 0 && agree<ErrorCode>(kCodes, 1));
static_assert(agree<DType>(kTypes, 0));
static_assert(agree<ReduceOp>(kOps, 0));
static_assert(std::size(kVerbNames) == kVerbs && agree<Verb>(kVerbNames, 0));

static_assert(std::size(kTransports) == kTransportKinds && agree<TransportKind>(kTransports, 0, "TUTTI_TRANSPORT_"));

static_assert(TUTTI_CHECK_QUICK == static_cast<int>(Check::quick));
static_assert(TUTTI_CHECK_FULL == static_cast<int>(Check::full));
static_assert(TUTTI_ANY_SOURCE == kAnySource && TUTTI_ANY_TAG == kAnyTag);

}  // namespace
}  // namespace tutti::capi

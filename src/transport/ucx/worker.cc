#include "transport/ucx/worker.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/deadline.h"
#include "transport/ucx/library.h"
#include "transport/ucx/peer.h"

namespace tutti::transport {
namespace {

constexpr unsigned kMessageId = 1;

// What a job goes by unless its user says otherwise: networks. Memory of a host is what the shm transport is for, and a
// process that is killed would leave UCX's behind.
constexpr char kWays[] = "tcp,ib,self";

// UCX's word for the end of a connection as the system would say it.
int number_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_UNREACHABLE: return EHOSTUNREACH;
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT: return ETIMEDOUT;
    default: return ECONNRESET;
  }
}

ucp_request_param_t params_of(void* user_data) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.user_data = user_data;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

// What was begun has ended at once, or could not be begun.
bool is_over(ucs_status_ptr_t begun) { return begun == nullptr || UCS_PTR_IS_ERR(begun); }

}  // namespace

UcxWorker::UcxWorker(Listener& listener, int ranks) : listener_(listener) {
  ucp_config_t* config = nullptr;
  check_ucx(ucx().ucp_config_read(nullptr, nullptr, &config), "reading its variables (UCX_...)");
  if (std::getenv("UCX_TLS") == nullptr) ucx().ucp_config_modify(config, "TLS", kWays);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<std::size_t>(ranks);
  params.name = "tutti";
  const ucs_status_t made = ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx().ucp_config_release(config);
  check_ucx(made, "its start");
  try {
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check_ucx(ucx().ucp_worker_create(context_, &worker, &worker_), "making a worker");
    check_ucx(ucx().ucp_worker_get_efd(worker_, &descriptor_), "a descriptor to sleep on");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
    handler.cb = &UcxWorker::take_message;
    handler.arg = this;
    check_ucx(ucx().ucp_worker_set_am_recv_handler(worker_, &handler), "taking messages");
  } catch (...) {
    if (worker_ != nullptr) ucx().ucp_worker_destroy(worker_);
    ucx().ucp_cleanup(context_);
    throw;
  }
}

void UcxWorker::abandon(std::unique_ptr<Parcels> parcels) {
  struct Abandoned {
    ucp_context_h context;
    ucp_worker_h worker;
    std::unique_ptr<Parcels> parcels;
  };
  static std::mutex mutex;
  static auto* const kForever = new std::vector<Abandoned>;
  const std::lock_guard lock(mutex);
  kForever->push_back({context_, worker_, std::move(parcels)});
  abandoned_ = true;
}

UcxWorker::~UcxWorker() {
  if (abandoned_) return;
  ucx().ucp_worker_destroy(worker_);
  ucx().ucp_cleanup(context_);
}

std::vector<std::byte> UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check_ucx(ucx().ucp_worker_get_address(worker_, &address, &bytes), "telling its address");
  const auto* const begin = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(begin, begin + bytes);
  ucx().ucp_worker_release_address(worker_, address);
  return copy;
}

bool UcxWorker::progress() { return ucx().ucp_worker_progress(worker_) != 0; }

ucs_status_t UcxWorker::arm_status() { return ucx().ucp_worker_arm(worker_); }

ucp_ep_h UcxWorker::connect(std::span<const std::byte> address, UcxPeer& peer) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = &peer;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
    auto& lost = *static_cast<UcxPeer*>(arg);
    lost.listener->broken(lost, number_of(status));
  };
  ucp_ep_h endpoint = nullptr;
  return ucx().ucp_ep_create(worker_, &params, &endpoint) == UCS_OK ? endpoint : nullptr;
}

void UcxWorker::send(ucp_ep_h endpoint, Parcel& parcel, bool rendezvous) {
  ucp_request_param_t param = params_of(&parcel);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    ucx().ucp_request_free(request);
    auto& ended = *static_cast<Parcel*>(user_data);
    ended.peer->listener->end(ended, status == UCS_OK);
  };
  const ucs_status_ptr_t begun = ucx().ucp_am_send_nbx(endpoint, kMessageId, &parcel.header, sizeof parcel.header,
                                                       parcel.memory.get(), parcel.header.bytes, &param);
  if (is_over(begun)) listener_.end(parcel, begun == nullptr);
}

void UcxWorker::fetch(void* data, Parcel& parcel) {
  ucp_request_param_t param = params_of(&parcel);
  param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    ucx().ucp_request_free(request);
    auto& ended = *static_cast<Parcel*>(user_data);
    ended.peer->listener->end(ended, status == UCS_OK);
  };
  const ucs_status_ptr_t begun =
      ucx().ucp_am_recv_data_nbx(worker_, data, parcel.memory.get(), parcel.header.bytes, &param);
  if (is_over(begun)) listener_.end(parcel, begun == nullptr);
}

void UcxWorker::flush(ucp_ep_h endpoint, UcxPeer& peer) {
  ucp_request_param_t param = params_of(&peer);
  param.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    ucx().ucp_request_free(request);
    auto& flushed = *static_cast<UcxPeer*>(user_data);
    flushed.listener->flushed(flushed, status == UCS_OK);
  };
  const ucs_status_ptr_t begun = ucx().ucp_ep_flush_nbx(endpoint, &param);
  if (is_over(begun)) listener_.flushed(peer, begun == nullptr);
}

void UcxWorker::release(void* data) { ucx().ucp_am_data_release(worker_, data); }

bool UcxWorker::close(std::span<const ucp_ep_h> good, std::span<const ucp_ep_h> broken,
                      std::chrono::nanoseconds at_most) {
  std::vector<void*> requests;
  const auto begin = [&](std::span<const ucp_ep_h> endpoints, std::uint32_t flags) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    for (const ucp_ep_h endpoint : endpoints) {
      void* const begun = ucx().ucp_ep_close_nbx(endpoint, &param);
      if (!is_over(begun)) requests.push_back(begun);
    }
  };
  begin(good, 0);
  begin(broken, UCP_EP_CLOSE_FLAG_FORCE);
  const auto has_ended = [](void* request) {
    if (ucx().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucx().ucp_request_free(request);
    return true;
  };
  for (const Deadline until = Deadline::after(at_most); !requests.empty() && !until.passed();) {
    while (progress()) continue;
    std::erase_if(requests, has_ended);
    pollfd entry{descriptor_, POLLIN, 0};
    if (!requests.empty() && arm()) ::poll(&entry, 1, 10);
  }
  return requests.empty();
}

ucs_status_t UcxWorker::take_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                     std::size_t bytes, const ucp_am_recv_param_t* param) {
  UcxHeader copy;
  if (header_bytes != sizeof copy) return UCS_OK;
  std::memcpy(&copy, header, sizeof copy);
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool kept = static_cast<UcxWorker*>(self)->listener_.arrive(copy, data, bytes, rendezvous);
  return kept ? UCS_INPROGRESS : UCS_OK;
}

}  // namespace tutti::transport

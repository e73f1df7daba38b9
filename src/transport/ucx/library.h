// The functions of UCX, loaded when they are first wanted: a job that does not ask for UCX has none of it in its
// processes, and a machine without it runs the same build.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include <string>

namespace tutti::transport {

#define TUTTI_UCX_FUNCTIONS(X)      \
  X(ucp_config_read)                \
  X(ucp_config_modify)              \
  X(ucp_config_release)             \
  X(ucp_init_version)               \
  X(ucp_cleanup)                    \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_release_address)     \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_worker_progress)            \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create)                  \
  X(ucp_ep_flush_nbx)               \
  X(ucp_ep_close_nbx)               \
  X(ucp_am_send_nbx)                \
  X(ucp_am_recv_data_nbx)           \
  X(ucp_am_data_release)            \
  X(ucp_request_check_status)       \
  X(ucp_request_free)               \
  X(ucs_status_string)              \
  X(ucs_log_push_handler)

struct UcxLibrary {
#define TUTTI_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_MEMBER)
#undef TUTTI_UCX_MEMBER
};

// Throws Error(unsupported) where the machine has no UCX. Never unloaded: its threads may outlive any owner.
const UcxLibrary& ucx();

// Throws Error(system) unless the status is UCS_OK: what was tried, and UCX's words for it.
void check_ucx(ucs_status_t status, const std::string& what);

}  // namespace tutti::transport

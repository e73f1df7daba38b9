#include "transport/ucx/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "transport/ucx/ucx.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr char kUcxRemedy[] = "; install UCX (libucx0) on all hosts, or set TUTTI_TRANSPORT=auto";

// A peer that ends is no news to the user before the control plane has judged it, and this library prints nothing: UCX
// is heard only by who asked for it.
ucs_log_func_rc_t keep_quiet(const char*, unsigned, const char*, ucs_log_level_t level,
                             const ucs_log_component_config_t*, const char*, va_list) {
  return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

template <class Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::unsupported, std::string("libucp.so.0 of this machine lacks ") + name + kUcxRemedy);
}

UcxLibrary load_ucx() {
  void* const handle = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorCode::unsupported, std::string("UCX was asked for (TUTTI_TRANSPORT=ucx), but cannot be loaded: ") +
                                            ::dlerror() + kUcxRemedy);
  }
  UcxLibrary found;
#define TUTTI_UCX_FIND(name) find_function(handle, #name, found.name);
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_FIND)
#undef TUTTI_UCX_FIND
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) found.ucs_log_push_handler(keep_quiet);
  return found;
}

}  // namespace

const UcxLibrary& ucx() {
  static const UcxLibrary kLibrary = load_ucx();
  return kLibrary;
}

void check_ucx(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  throw Error(ErrorCode::system, "UCX: " + what + " failed: " + ucx().ucs_status_string(status) +
                                     "; UCX_LOG_LEVEL=info tells more, and TUTTI_TRANSPORT=tcp goes without UCX");
}

void require_ucx() { static_cast<void>(ucx()); }

}  // namespace tutti::transport

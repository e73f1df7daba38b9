#include "rendezvous/launch/pmix_store.h"

#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "rendezvous/launch/bounded_call.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr char kRemedy[] = "; set TUTTI_RENDEZVOUS=host:port on all ranks, a free port on the host of rank 0";

// The functions of libpmix. Loaded once and never unloaded, because its threads may outlive any owner.
struct Library {
  decltype(&::PMIx_Init) init;
  decltype(&::PMIx_Finalize) finalize;
  decltype(&::PMIx_Put) put;
  decltype(&::PMIx_Commit) commit;
  decltype(&::PMIx_Get) get;
  decltype(&::PMIx_Error_string) words;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorCode::unsupported, std::string("libpmix.so.2 lacks ") + name + kRemedy);
  }
}

const Library& library() {
  static const Library kLibrary = [] {
    // Global, because PMIx loads parts of itself that look for its symbols.
    void* handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      throw Error(ErrorCode::unsupported, std::string("PMIx cannot be loaded: ") + ::dlerror() + kRemedy);
    }
    Library found{};
    find(handle, "PMIx_Init", found.init);
    find(handle, "PMIx_Finalize", found.finalize);
    find(handle, "PMIx_Put", found.put);
    find(handle, "PMIx_Commit", found.commit);
    find(handle, "PMIx_Get", found.get);
    find(handle, "PMIx_Error_string", found.words);
    return found;
  }();
  return kLibrary;
}

void check(pmix_status_t status, const std::string& what) {
  if (status == PMIX_SUCCESS) return;
  throw Error(ErrorCode::system, "PMIx " + what + " failed: " + library().words(status) + kRemedy);
}

std::string late(const std::string& what) { return "PMIx did not " + what + " before the deadline" + kRemedy; }

// One attempt takes a few seconds at most, and then the next is made: a server that lost a request is asked again.
int seconds_of_attempt(const Deadline& deadline) {
  constexpr std::chrono::seconds kMost{5};
  const auto left = std::chrono::ceil<std::chrono::seconds>(std::min<std::chrono::nanoseconds>(deadline.left(), kMost));
  return static_cast<int>(std::max<std::chrono::seconds>(left, std::chrono::seconds(1)).count());
}

// One attempt; false where the key is not there yet.
bool fetch(const pmix_proc_t& from, const std::string& key, int timeout_s, std::string& result) {
  pmix_info_t info[2]{};
  std::strncpy(info[0].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
  info[0].value.type = PMIX_INT;
  info[0].value.data.integer = timeout_s;
  // A server that has fetched rank 0's words before would otherwise not look for new ones.
  std::strncpy(info[1].key, PMIX_GET_REFRESH_CACHE, PMIX_MAX_KEYLEN);
  info[1].value.type = PMIX_BOOL;
  info[1].value.data.flag = true;
  pmix_value_t* value = nullptr;
  const pmix_status_t status = library().get(&from, key.c_str(), info, 2, &value);
  if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) return false;
  check(status, "fetching '" + key + "'");
  const bool words = value != nullptr && value->type == PMIX_STRING && value->data.string != nullptr;
  if (words) result.assign(value->data.string, ::strnlen(value->data.string, Store::kMostValueBytes + 1));
  if (words) std::free(value->data.string);
  std::free(value);
  if (!words) throw Error(ErrorCode::system, "PMIx holds no words under '" + key + "'" + kRemedy);
  return true;
}

class PmixStore : public Store {
 public:
  explicit PmixStore(const Deadline& deadline)
      : root_(within<pmix_proc_t>(deadline, late("answer"), [] {
          pmix_proc_t self{};
          check(library().init(&self, nullptr, 0), "start");
          return self;
        })) {
    root_.rank = 0;
  }

  ~PmixStore() override {
    // What was set stays with the server. A server that does not answer must not keep this rank.
    try {
      const auto patience = Deadline::after(std::chrono::seconds(2));
      within<pmix_status_t>(patience, late("end"), [] { return library().finalize(nullptr, 0); });
    } catch (const Error&) {
    }
  }

  void set(std::string_view key, std::string_view value, const Deadline& deadline) override {
    within<bool>(deadline, late("take '" + std::string(key) + "'"),
                 [key = std::string(key), words = std::string(value)]() mutable {
                   pmix_value_t copied{};
                   copied.type = PMIX_STRING;
                   copied.data.string = words.data();
                   check(library().put(PMIX_GLOBAL, key.c_str(), &copied), "storing '" + key + "'");
                   check(library().commit(), "storing '" + key + "'");
                   return true;
                 });
  }

  std::string get(std::string_view key, const Deadline& deadline) override {
    const std::string what = "give the key '" + std::string(key) + "', which rank 0 sets when it is ready to meet";
    return within<std::string>(deadline, late(what), [root = root_, what, key = std::string(key), deadline] {
      std::string result;
      while (!fetch(root, key, seconds_of_attempt(deadline), result)) {
        if (deadline.passed()) throw Error(ErrorCode::timeout, late(what));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      return result;
    });
  }

 private:
  pmix_proc_t root_;  // rank 0 of the job
};

}  // namespace

std::unique_ptr<Store> make_pmix_store(const Deadline& deadline) { return std::make_unique<PmixStore>(deadline); }

}  // namespace tutti::rendezvous

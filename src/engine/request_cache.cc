#include "engine/request_cache.h"

namespace tutti::engine {

void RequestCache::check(const Request& request, const GroupView& group, UnevenChunks& chunks, Call& call,
                         Entry& entry) {
  call = engine::call_of(request, group, chunks);
  if (!is_plain(request)) return;
  entry.request = request;
  entry.call = call;
  entry.filled = true;
}

}  // namespace tutti::engine

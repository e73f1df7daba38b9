#include "engine/recall.h"

namespace tutti::engine {

void Recall::check(const Request& request, const Asked& group, UnevenChunks& chunks, Call& call, Entry& entry) {
  call = engine::call_of(request, group, chunks);
  if (!is_plain(request)) return;
  entry.input = request.input;
  entry.output = request.output;
  entry.input_count = request.input_count;
  entry.output_count = request.output_count;
  entry.element = request.element;
  entry.verb = request.verb;
  entry.op = request.op.builtin();
  entry.direction = request.direction;
  entry.root = request.root;
  entry.peer = request.peer;
  entry.tag = request.tag;
  entry.call = call;
  entry.filled = true;
}

}  // namespace tutti::engine

#include "backend/profile.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/tensors.h"

namespace tutti::pytorch {
namespace {

std::size_t bytes_of_all(at::TensorList tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += bytes_of(tensor.is_sparse() ? tensor._values() : tensor);
  return bytes;
}

}  // namespace

std::shared_ptr<at::RecordFunction> begin_row(const Call& call, bool async) {
  if (!at::hasCallbacks()) return nullptr;
  auto row = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (!row->isActive()) return nullptr;
  if (async) row->_setAsync();
  std::vector<c10::IValue> shapes;
  for (const at::Tensor& tensor : call.inputs) shapes.emplace_back(tensor);
  // What this rank gave or got, whichever is more.
  const std::size_t bytes = std::max(bytes_of_all(call.inputs), bytes_of_all(call.outputs));
  const std::unordered_map<std::string, c10::IValue> words{{"bytes", static_cast<std::int64_t>(bytes)}};
  row->before(call.title.profile, &shapes, &words);
  return row;
}

}  // namespace tutti::pytorch

// Messages between two ranks, and calls that are started together.
#include <algorithm>

#include "backend/backend.h"
#include "backend/titles.h"

namespace tutti::pytorch {
namespace {

// Several works that are waited for as one.
class Together : public c10d::Work {
 public:
  Together(int rank, std::vector<C10dWork> parts)
      : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override {
    return std::all_of(parts_.begin(), parts_.end(), [](const C10dWork& part) { return part->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const C10dWork& part) { return part->isSuccess(); });
  }
  std::exception_ptr exception() const override {
    for (const C10dWork& part : parts_) {
      if (auto error = part->exception()) return error;
    }
    return nullptr;
  }
  bool wait(Milliseconds timeout) override {
    for (const C10dWork& part : parts_) part->wait(timeout);
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void abort() override { parts_.front()->abort(); }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const C10dWork& part : parts_) {
      const auto own = part->result();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const C10dWork& part : parts_) futures.push_back(part->getFuture());
    const auto type = c10::ListType::create(c10::TensorType::get());
    return c10::collectAll(futures)->then(
        [parts = parts_](c10::ivalue::Future& all) -> c10::IValue {
          if (all.hasError()) std::rethrow_exception(all.exception_ptr());
          std::vector<at::Tensor> outputs;
          for (const C10dWork& part : parts) {
            const auto own = part->result();  // it has ended
            outputs.insert(outputs.end(), own.begin(), own.end());
          }
          return outputs;
        },
        type);
  }

 private:
  const std::vector<C10dWork> parts_;
};

}  // namespace

C10dWork Backend::send(Tensors& tensors, int peer, int tag) { return send_or_receive(kSend, tensors, peer, tag, true); }

C10dWork Backend::recv(Tensors& tensors, int peer, int tag) {
  return send_or_receive(kReceive, tensors, peer, tag, false);
}

C10dWork Backend::recvAnysource(Tensors& tensors, int tag) {
  return send_or_receive(kReceiveAny, tensors, TUTTI_ANY_SOURCE, tag, false);
}

C10dWork Backend::send_or_receive(const Title& title, Tensors& tensors, int peer, int tag, bool sends) {
  require_one(tensors, title.verb);
  const at::Tensor& tensor = tensors.front();
  const at::Tensor buffer = sends ? plain_input(tensor) : plain_output(tensor);
  const bool copied = !sends && !buffer.is_same(tensor);
  if (coalescing_) {
    // An address of an empty tensor may be null, and a message needs one.
    static char nothing = 0;
    void* const place = count_of(buffer) == 0 ? &nothing : buffer.data_ptr();
    coalescing_->messages.push_back({sends ? place : nullptr, sends ? nullptr : place, count_of(buffer),
                                     type_to_move(buffer), peer, tag, 0, nullptr});
    (sends ? coalescing_->inputs : coalescing_->outputs).push_back(tensor);
    coalescing_->kept.push_back(buffer);
    if (copied) coalescing_->copies.emplace_back(buffer, tensor);
    return nullptr;
  }
  Call call{title, sends ? at::TensorList(tensors) : at::TensorList(),
            sends ? at::TensorList() : at::TensorList(tensors)};
  call.kept.push_back(buffer);
  if (copied) call.copies = [=] { copy_back(buffer, tensor); };
  return launch(call, {true, c10d::kUnsetTimeout}, [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      if (sends)
        return tutti_send(to, buffer.const_data_ptr(), count_of(buffer), type_to_move(buffer), peer, tag, handle);
      return tutti_recv(to, buffer.data_ptr(), count_of(buffer), type_to_move(buffer), peer, tag, parts.received(),
                        handle);
    });
  });
}

void Backend::startCoalescing() {
  if (coalescing_) throw_value("startCoalescing: calls are being coalesced already");
  coalescing_.emplace();
}

C10dWork Backend::endCoalescing() {
  if (!coalescing_) throw_value("endCoalescing: startCoalescing was not called");
  Coalescing together = std::move(*coalescing_);
  coalescing_.reset();
  if (!together.messages.empty()) {
    Call batch{kBatch, together.inputs, together.outputs};
    batch.keep(together.kept);
    if (!together.copies.empty()) {
      batch.copies = [copies = std::move(together.copies)] {
        for (const auto& [from, to] : copies) copy_back(from, to);
      };
    }
    together.works.push_back(launch(batch, {true, c10d::kUnsetTimeout}, [&](Parts& parts) {
      parts.add_all(together.messages.size(), [&](tutti_comm to, tutti_work* handles) {
        return tutti_batch(to, together.messages.data(), together.messages.size(), handles);
      });
    }));
  }
  if (together.works.empty()) {  // nothing was called: done
    return c10::make_intrusive<EndedWork>(getRank(), Call{kBatch, {}, {}}, sequence_.load());
  }
  if (together.works.size() == 1) return together.works.front();
  return c10::make_intrusive<Together>(getRank(), std::move(together.works));
}

}  // namespace tutti::pytorch

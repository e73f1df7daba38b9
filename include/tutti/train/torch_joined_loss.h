// Layers of libtorch that add to the loss by themselves, in backward, such as the balance loss of a train::Mixture.
#pragma once

#include <functional>
#include <utility>

namespace tutti::train {

// What they add is to be as large as the loss that backward begins from: a train::ModuleStrategy with a loss scale
// tells it to all such layers of its module. Who scales losses without one tells them by himself.
class JoinsLoss {
 public:
  virtual ~JoinsLoss() = default;
  // Asked in every forward: what the loss of that forward will be multiplied with.
  void set_loss_scale(std::function<double()> scale) { scale_ = std::move(scale); }

 protected:
  JoinsLoss() = default;
  JoinsLoss(const JoinsLoss&) = default;
  JoinsLoss& operator=(const JoinsLoss&) = default;
  double loss_scale() const { return scale_ ? scale_() : 1; }

 private:
  std::function<double()> scale_;
};

}  // namespace tutti::train

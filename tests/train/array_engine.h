// A model of small layers, y = tanh(w x + b) on rows of numbers, as an engine of arrays for pipelines, and what one
// process makes of it that accumulates the same micro-batches.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "train/one_process.h"
#include "tutti/train/pipeline.h"

namespace tutti::testing {

// Rows of `width` numbers.
template <class T = float>
train::PipelineArray array_of(std::size_t rows, std::size_t width) {
  const auto numbers = std::make_shared<std::vector<T>>(rows * width);
  return {{Element::of<T>().dtype(), {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)}},
          std::shared_ptr<void>(numbers, numbers->data())};
}

struct ArrayLayer {
  std::size_t in = 0, out = 0;
  std::vector<float> weight, bias, weight_gradient, bias_gradient;

  ArrayLayer(std::size_t number, std::size_t inputs, std::size_t outputs)
      : in(inputs),
        out(outputs),
        weight(inputs * outputs),
        bias(outputs),
        weight_gradient(inputs * outputs),
        bias_gradient(outputs) {
    const auto seed = static_cast<std::uint32_t>(number);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = noise(seed, 1, i);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = noise(seed, 2, i);
  }

  train::PipelineArray forward(const train::PipelineArray& x, std::size_t rows) const {
    train::PipelineArray y = array_of(rows, out);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t o = 0; o < out; ++o) {
        float sum = bias[o];
        for (std::size_t i = 0; i < in; ++i) sum += weight[o * in + i] * x.as<float>()[row * in + i];
        y.as<float>()[row * out + o] = std::tanh(sum);
      }
    }
    return y;
  }
  // The gradient before the tanh, of that behind it.
  void through_tanh(const train::PipelineArray& y, train::PipelineArray& gradient, std::size_t rows) const {
    for (std::size_t i = 0; i < rows * out; ++i) gradient.as<float>()[i] *= 1 - y.as<float>()[i] * y.as<float>()[i];
  }
  train::PipelineArray input_gradient(const train::PipelineArray& gradient, std::size_t rows) const {
    train::PipelineArray dx = array_of(rows, in);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < in; ++i) {
        float sum = 0;
        for (std::size_t o = 0; o < out; ++o) sum += weight[o * in + i] * gradient.as<float>()[row * out + o];
        dx.as<float>()[row * in + i] = sum;
      }
    }
    return dx;
  }
  void add_weight_gradient(const train::PipelineArray& x, const train::PipelineArray& gradient, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t o = 0; o < out; ++o) {
        const float g = gradient.as<float>()[row * out + o];
        bias_gradient[o] += g;
        for (std::size_t i = 0; i < in; ++i) weight_gradient[o * in + i] += g * x.as<float>()[row * in + i];
      }
    }
  }
};

// Some layers in a row: all of the model, or those of one place. At the model's beginning it makes its own examples, at
// its end the gradient of half the sum of squares.
class ArrayPart {
 public:
  ArrayPart(std::size_t first, std::size_t last, const std::vector<std::size_t>& widths, std::size_t rows)
      : first_(first), rows_(rows), is_last_(last + 1 == widths.size()) {
    for (std::size_t layer = first; layer < last; ++layer) layers.emplace_back(layer, widths[layer], widths[layer + 1]);
  }

  train::PipelineArray forward(int microbatch, train::PipelineArray x) {
    if (first_ == 0) {
      x = array_of(rows_, layers.front().in);
      for (std::size_t i = 0; i < rows_ * layers.front().in; ++i) x.as<float>()[i] = noise(77, microbatch, i);
    }
    std::vector<train::PipelineArray>& kept = kept_[microbatch];
    kept = {x};
    for (const ArrayLayer& layer : layers) kept.push_back(layer.forward(kept.back(), rows_));
    held = std::max(held, kept_.size());
    return is_last_ ? train::PipelineArray() : kept.back();
  }
  train::PipelineArray input_gradient(int microbatch, const train::PipelineArray& received) {
    const std::vector<train::PipelineArray>& kept = kept_.at(microbatch);
    std::vector<train::PipelineArray>& gradients = gradients_[microbatch];
    train::PipelineArray gradient = array_of(rows_, layers.back().out);
    std::memcpy(gradient.as<float>(), (is_last_ ? kept.back() : received).as<float>(), gradient.shape.bytes());
    for (std::size_t i = layers.size(); i-- > 0;) {
      layers[i].through_tanh(kept[i + 1], gradient, rows_);
      gradients.push_back(gradient);
      gradient = layers[i].input_gradient(gradient, rows_);
    }
    return first_ == 0 ? train::PipelineArray() : gradient;
  }
  void weight_gradient(int microbatch) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].add_weight_gradient(kept_.at(microbatch)[i], gradients_.at(microbatch)[layers.size() - 1 - i], rows_);
    kept_.erase(microbatch);
    gradients_.erase(microbatch);
  }

  std::vector<ArrayLayer> layers;
  std::size_t held = 0;  // micro-batches at once, at most

 private:
  std::size_t first_, rows_;
  bool is_last_;
  std::map<int, std::vector<train::PipelineArray>> kept_, gradients_;
};

// Parts of one rank, by chunk, as an engine. They outlive it.
inline train::PipelineEngine engine_of(std::vector<ArrayPart>& parts) {
  const auto part = [&parts](int chunk) -> ArrayPart& { return parts[static_cast<std::size_t>(chunk)]; };
  train::PipelineEngine engine;
  engine.forward = [part](int microbatch, int chunk, const train::PipelineArray& x) {
    return part(chunk).forward(microbatch, x);
  };
  engine.input_gradient = [part](int microbatch, int chunk, const train::PipelineArray& gradient) {
    return part(chunk).input_gradient(microbatch, gradient);
  };
  engine.weight_gradient = [part](int microbatch, int chunk) { part(chunk).weight_gradient(microbatch); };
  engine.backward = [engine](int microbatch, int chunk, const train::PipelineArray& gradient) {
    train::PipelineArray made = engine.input_gradient(microbatch, chunk, gradient);
    engine.weight_gradient(microbatch, chunk);
    return made;
  };
  return engine;
}

}  // namespace tutti::testing

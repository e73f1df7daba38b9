// What a server of train::ParameterServer holds: its part of every parameter, with the optimizer's states, updated push
// by push; and, where clocks are synchronous, what workers have pushed in this one, until it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/server_wire.h"
#include "tutti/train/optimizer.h"

namespace tutti::train {

class ServedValues {
 public:
  ServedValues(const ServerPlan& plan, std::size_t server, const ServedParameters& parameters,
               const Optimizer& optimizer);

  std::span<const float> held(std::size_t key) const { return keys_[key].values; }
  // Rows of a table, or elements of what is dense.
  std::size_t rows_of(std::size_t key) const;

  // Steps of a parameter are numbered from 1. A step of so many rows from `first` on, or of these rows.
  std::int64_t begin_step(std::size_t key);
  void update(std::size_t key, std::int64_t step, std::size_t first, std::size_t rows, const float* gradient,
              double scale);
  void update(std::size_t key, std::int64_t step, std::span<const std::int64_t> rows, const float* gradient,
              double scale);

  void copy(std::size_t key, std::size_t first, std::size_t rows, float* values) const;
  void copy(std::size_t key, std::span<const std::int64_t> rows, float* values) const;

  std::uint64_t steps() const { return steps_; }

 private:
  struct HeldKey {
    std::size_t width = 1;
    std::int64_t step = 0;
    std::vector<float> values = {};
    std::vector<float> states[2] = {};
  };

  Optimizer optimizer_;
  std::vector<HeldKey> keys_;
  std::uint64_t steps_ = 0;
};

// Gradients of one clock, by worker. They are averaged over those who have ended it, in canonical order: what a worker
// has not pushed counts as zeros, and what nobody has is not updated.
class ClockGradients {
 public:
  // `hosts` of the workers.
  ClockGradients(const ServerPlan& plan, std::span<const int> hosts);

  // Where a push of so many rows may land, until landed() is called.
  float* place(std::size_t worker, std::size_t key, std::size_t rows);
  void landed(std::size_t worker, std::size_t key, std::span<const std::int64_t> rows);
  void forget(std::size_t worker);

  // One step of all that was pushed by these workers, and forgets it.
  void step(const std::vector<std::size_t>& workers, ServedValues& values);

 private:
  // Of a worker and a parameter.
  struct Pushed {
    bool any = false;
    std::vector<float> gradient;
    std::vector<float> landing;      // a further push
    std::vector<std::int64_t> rows;  // of a table: those of `gradient`, in the order they came
  };

  void step_dense(std::size_t key, const std::vector<std::size_t>& workers, ServedValues& values);
  void step_table(std::size_t key, const std::vector<std::size_t>& workers, ServedValues& values);
  void sort_by_host(const std::vector<std::size_t>& workers);
  // The mean of one array of each worker goes to mean_.
  void average(std::span<float* const> sources, std::size_t count);

  std::vector<strategy::KeyShape> keys_;
  std::vector<int> hosts_;                         // by worker
  std::vector<std::vector<std::size_t>> by_host_;  // of those whose step it is: places among them
  std::vector<std::vector<Pushed>> pushed_;        // by worker, by key
  std::vector<float> zeros_, mean_, partial_;
};

}  // namespace tutti::train

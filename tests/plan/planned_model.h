// A model of zeros in the tensors and units of a plan: for the test and the measurement that hold plans against runs.
#pragma once

#include "plan/training.h"
#include "tools/idle_model.h"

namespace tutti::plan {

inline tools::IdleModel planned_model(const ModelShape& shape) {
  tools::IdleModel model;
  for (const ModelTensor& tensor : tensors_of(shape)) model.add(tensor.name, tensor.elements, unit_of(tensor));
  return model;
}

}  // namespace tutti::plan

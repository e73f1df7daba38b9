// What a rank says in a step of tensor or sequence parallel, by formula: what its communicator counts must equal this.
#pragma once

#include "tutti/train/report.h"
#include "tutti/train/tensor_parallel_shape.h"

namespace tutti::strategy {

train::Sentence sentence_of(const train::TensorParallelShape& shape);

}  // namespace tutti::strategy

// What of a transformer its bytes under tensor parallel depend on. docs/strategies.md has the formulas.
#pragma once

#include <cstdint>

#include "tutti/types.h"

namespace tutti::train {

// Layers of attention and feed-forward, each a product cut by columns and one cut by rows; an embedding, an output
// layer and a cross entropy that are cut by the vocabulary.
struct TensorParallelShape {
  int ranks = 1;                        // that a layer is cut over
  int layers = 1;                       // on this rank
  std::uint64_t tokens = 0, width = 0;  // of this rank's batch, examples times length; of a token between layers
  std::uint64_t places = 0;             // rows of the embedding of places, which all ranks hold; 0: there is none
  DType type = DType::float32;
  bool sequence = false;  // sequence parallel
  bool biases = true;     // of norms, and of products cut by rows

  bool operator==(const TensorParallelShape&) const = default;
};

}  // namespace tutti::train

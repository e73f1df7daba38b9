// The hash of a source, equal on all machines (op.h).
#include "base/mix.h"
#include "tutti/op.h"

namespace tutti {

DeviceSource::DeviceSource(std::string text) : text_(std::move(text)), hash_(mix_letters(0, text_)) {}

}  // namespace tutti

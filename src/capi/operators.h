// Element types and operators of tutti.h in C++ terms. `where` is the verb that an error speaks of.
#pragma once

#include <string_view>

#include "tutti/element.h"
#include "tutti/op.h"
#include "tutti/tutti.h"

namespace tutti::capi {

Element element_of(tutti_type type, std::string_view where);
Op op_of(tutti_op op, tutti_type type, std::string_view where);

}  // namespace tutti::capi

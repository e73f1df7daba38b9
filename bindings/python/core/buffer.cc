#include "core/buffer.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "core/errors.h"

namespace tutti::python {
namespace {

std::string at(Role role) { return std::string(role.verb) + ": " + role.name + " "; }

DType integer_of(bool is_signed, std::size_t bytes) {
  constexpr DType kSigned[] = {DType::int8, DType::int16, DType::int32, DType::int64};
  constexpr DType kUnsigned[] = {DType::uint8, DType::uint16, DType::uint32, DType::uint64};
  const auto power = static_cast<std::size_t>(std::countr_zero(bytes));
  return is_signed ? kSigned[power] : kUnsigned[power];
}

// A format of the buffer protocol; what it does not name as a number moves as bytes.
Element element_of_format(std::string_view format, std::size_t bytes) {
  if (!format.empty() && std::string_view("@=<").find(format.front()) != std::string_view::npos)
    format.remove_prefix(1);
  if (format == "Zf" && bytes == 8) return DType::complex64;
  if (format == "Zd" && bytes == 16) return DType::complex128;
  if (format.size() != 1) return Element::of_bytes(bytes);
  const char code = format.front();
  const bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (whole && std::string_view("bhilqn").find(code) != std::string_view::npos) return integer_of(true, bytes);
  if (whole && std::string_view("BHILQN").find(code) != std::string_view::npos) return integer_of(false, bytes);
  if (code == 'e') return DType::float16;
  if (code == 'f') return DType::float32;
  if (code == 'd') return DType::float64;
  if (code == '?') return DType::boolean;
  return Element::of_bytes(bytes);
}

std::optional<Element> element_of_tensor(const nb::dlpack::dtype& type) {
  const std::size_t bytes = type.bits / 8;
  if (type.lanes != 1 || type.bits % 8 != 0) return std::nullopt;
  const bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int:
    case nb::dlpack::dtype_code::UInt:
      if (!whole) return std::nullopt;
      return integer_of(type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), bytes);
    case nb::dlpack::dtype_code::Float:
      if (bytes == 2) return DType::float16;
      if (bytes == 4) return DType::float32;
      if (bytes == 8) return DType::float64;
      break;
    case nb::dlpack::dtype_code::Bfloat:
      if (bytes == 2) return DType::bfloat16;
      break;
    case nb::dlpack::dtype_code::Complex:
      if (bytes == 8) return DType::complex64;
      if (bytes == 16) return DType::complex128;
      break;
    case nb::dlpack::dtype_code::Bool:
      if (bytes == 1) return DType::boolean;
      break;
    default: break;
  }
  return Element::of_bytes(bytes);  // the small floats, and what may come
}

[[noreturn]] void refuse_objects(Role role) {
  refuse_type(at(role) +
              "holds Python objects, which have no place in memory that could be moved; use the object "
              "verbs (comm.broadcast_object, gather_object, all_gather_object), or an array of numbers");
}

[[noreturn]] void refuse_read_only(Role role) {
  refuse(at(role) + "is read-only, and the call would write to it; pass a copy, or an array of your own as out=");
}

void require_devices(Role role) {
  const char* const driver = std::getenv("TUTTI_CUDA_DRIVER");
  if (driver != nullptr && std::string_view(driver) == "none")
    refuse(at(role) +
           "lies on a CUDA device, and TUTTI_CUDA_DRIVER=none turns those off; unset it, or copy to the host");
}

// "<f4", as array interfaces have it; what is no number moves as bytes.
Element element_of_typestr(const std::string& type, Role role) {
  if (type.size() < 3 || type.front() == '>')
    refuse_type(at(role) + "has elements of type " + type + ", which are no numbers of this machine");
  const char kind = type[1];
  const std::size_t bytes = std::strtoul(type.c_str() + 2, nullptr, 10);
  const bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (kind == 'i' && whole) return integer_of(true, bytes);
  if (kind == 'u' && whole) return integer_of(false, bytes);
  if (kind == 'b' && bytes == 1) return DType::boolean;
  if (kind == 'f' && bytes == 2) return DType::float16;
  if (kind == 'f' && bytes == 4) return DType::float32;
  if (kind == 'f' && bytes == 8) return DType::float64;
  if (kind == 'c' && bytes == 8) return DType::complex64;
  if (kind == 'c' && bytes == 16) return DType::complex128;
  if (bytes == 0) refuse_type(at(role) + "has elements of type " + type + ", which have no length");
  return Element::of_bytes(bytes);
}

// Clears the Python error at hand and returns its words.
std::string take_words() {
  const nb::python_error error;
  return error.what();
}

bool holds_objects(nb::handle array) {
  return nb::hasattr(array, "dtype") && nb::hasattr(array.attr("dtype"), "hasobject") &&
         nb::cast<bool>(array.attr("dtype").attr("hasobject"));
}

}  // namespace

Buffer::Buffer(nb::handle object, Access access, Role role) : object_(nb::borrow(object)) {
  if (!take_buffer(object, access, role) && !take_array(object, access, role) &&
      !take_cuda_array(object, access, role) && !take_dlpack(object, access, role)) {
    object_.reset();
    refuse_type(at(role) + "is a " + kind_of(object) +
                ", which is no piece of memory; pass a NumPy array, or anything with the buffer protocol, DLPack or "
                "__cuda_array_interface__");
  }
  count_ = 1;
  for (const std::size_t length : shape_) count_ *= length;
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(object_, other.object_);
  std::swap(view_, other.view_);
  std::swap(tensor_, other.tensor_);
  std::swap(data_, other.data_);
  std::swap(stream_, other.stream_);
  std::swap(element_, other.element_);
  std::swap(shape_, other.shape_);
  std::swap(count_, other.count_);
  return *this;
}

Buffer::~Buffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

bool Buffer::take_buffer(nb::handle object, Access access, Role role) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FULL_RO) != 0) {
    view_.obj = nullptr;
    if (holds_objects(object)) {
      PyErr_Clear();
      refuse_objects(role);
    }
    PyErr_Clear();  // types that the protocol has no letter for, bfloat16 among them
    return false;
  }
  const std::string_view format = view_.format == nullptr ? "B" : view_.format;
  if (format.find('O') != std::string_view::npos && (format == "O" || holds_objects(object))) refuse_objects(role);
  if (access == Access::write && view_.readonly != 0) refuse_read_only(role);
  shape_.assign(view_.shape, view_.shape + view_.ndim);
  require_contiguous(role);
  data_ = view_.buf;
  element_ = element_of_format(format, static_cast<std::size_t>(view_.itemsize));
  return true;
}

// A NumPy array of a type that the protocol does not know, seen as bytes of the same length.
bool Buffer::take_array(nb::handle object, Access access, Role role) {
  if (!nb::hasattr(object, "__array_interface__") || !nb::hasattr(object, "dtype")) return false;
  const nb::object type = object.attr("dtype");
  const auto bytes = nb::cast<std::size_t>(type.attr("itemsize"));
  if (!take_buffer(object.attr("view")("V" + std::to_string(bytes)), access, role)) return false;
  element_ =
      nb::cast<std::string>(type.attr("name")) == "bfloat16" ? Element(DType::bfloat16) : Element::of_bytes(bytes);
  return true;
}

// Version 3 of the interface, and those before it: what they lack is not there.
bool Buffer::take_cuda_array(nb::handle object, Access access, Role role) {
  if (!nb::hasattr(object, "__cuda_array_interface__")) return false;
  require_devices(role);
  const auto shown = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
  const auto data = nb::cast<nb::tuple>(shown["data"]);
  if (access == Access::write && nb::cast<bool>(data[1])) refuse_read_only(role);
  if (shown.contains("mask") && !shown["mask"].is_none()) refuse(at(role) + "has a mask, which no verb looks at");
  data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
  element_ = element_of_typestr(nb::cast<std::string>(shown["typestr"]), role);
  if (element_.bytes() == 2 && nb::hasattr(object, "dtype") &&
      nb::cast<std::string>(object.attr("dtype").attr("__str__")()).ends_with("bfloat16"))
    element_ = DType::bfloat16;
  for (const nb::handle length : nb::cast<nb::tuple>(shown["shape"])) shape_.push_back(nb::cast<std::size_t>(length));
  if (shown.contains("strides") && !shown["strides"].is_none()) {
    const auto strides = nb::cast<nb::tuple>(shown["strides"]);
    auto expected = static_cast<std::int64_t>(element_.bytes());
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      if (shape_[axis] > 1 && nb::cast<std::int64_t>(strides[axis]) != expected)
        refuse(at(role) + "is not contiguous; pass a contiguous copy, and copy the result back where it is wanted");
      expected *= static_cast<std::int64_t>(shape_[axis]);
    }
  }
  if (shown.contains("stream") && !shown["stream"].is_none())
    stream_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(shown["stream"]));
  return true;
}

bool Buffer::take_dlpack(nb::handle object, Access access, Role role) {
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__")) return false;
  const auto device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  const int kind = nb::cast<int>(nb::int_(device[0]));
  const bool on_cuda = kind == nb::device::cuda::value || kind == nb::device::cuda_managed::value;
  if (on_cuda) require_devices(role);
  if (!on_cuda && kind != nb::device::cpu::value && kind != nb::device::cuda_host::value) {
    refuse(at(role) + "lies on a device that is not CUDA's (DLPack's kind " + std::to_string(kind) +
           "), and only memory of the host and of CUDA devices is moved; copy it to the host first");
  }
  if (!nb::try_cast<nb::ndarray<nb::ro>>(object, tensor_)) {
    const std::string why = PyErr_Occurred() != nullptr ? ": " + take_words() : "";
    refuse_type(at(role) + "does not let go of its memory by DLPack" + why);
  }
  nb::ndarray<> writable;
  if (access == Access::write && !nb::try_cast<nb::ndarray<>>(object, writable)) {
    PyErr_Clear();
    refuse_read_only(role);
  }
  const std::optional<Element> element = element_of_tensor(tensor_.dtype());
  if (!element) refuse_type(at(role) + "has elements that are no whole bytes");
  element_ = *element;
  data_ = const_cast<void*>(tensor_.data());
  for (std::size_t axis = 0; axis < tensor_.ndim(); ++axis) shape_.push_back(tensor_.shape(axis));
  std::int64_t expected = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0;) {
    if (shape_[axis] > 1 && tensor_.stride(axis) != expected && tensor_.size() > 0)
      refuse(at(role) + "is not contiguous; pass a contiguous copy, and copy the result back where it is wanted");
    expected *= static_cast<std::int64_t>(shape_[axis]);
  }
  return true;
}

void Buffer::require_contiguous(Role role) const {
  if (PyBuffer_IsContiguous(&view_, 'C') != 0) return;
  if (PyBuffer_IsContiguous(&view_, 'F') != 0)
    refuse(at(role) + "is in Fortran order; pass its transpose (array.T), which is the same memory in C order");
  refuse(at(role) +
         "is not contiguous, so it is no single piece of memory; pass numpy.ascontiguousarray(array), and "
         "copy the result back where it is wanted");
}

std::size_t Buffer::rows(Role role) const {
  if (shape_.empty()) refuse(at(role) + "has no first axis to be cut along; give it one (array.reshape(1))");
  return shape_.front();
}

std::size_t Buffer::row_elements() const {
  std::size_t elements = 1;
  for (std::size_t axis = 1; axis < shape_.size(); ++axis) elements *= shape_[axis];
  return elements;
}

nb::object Buffer::dtype() const {
  if (nb::hasattr(object_, "__array_interface__") && nb::hasattr(object_, "dtype")) return object_.attr("dtype");
  if (element_.opaque()) return nb::str(("V" + std::to_string(element_.bytes())).c_str());
  if (element_.dtype() == DType::bfloat16) return nb::module_::import_("ml_dtypes").attr("bfloat16");
  const std::string name(tutti::name_of(element_.dtype()));
  return nb::str(element_.dtype() == DType::boolean ? "bool" : name.c_str());
}

std::string name_of_element(const Element& element) {
  if (element.opaque()) return std::to_string(element.bytes()) + " bytes";
  return std::string(name_of(element.dtype()));
}

void require_same_elements(const Buffer& input, const Buffer& output, const char* verb) {
  if (!input.given() || !output.given() || input.element() == output.element()) return;
  refuse(std::string(verb) + ": the elements of the array are " + name_of_element(input.element()) + ", those of out " +
         name_of_element(output.element()) + "; nothing is converted on the way");
}

nb::object empty_like(const Buffer& like, const std::vector<std::size_t>& shape) {
  nb::list axes;
  for (const std::size_t length : shape) axes.append(length);
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(axes), like.dtype());
}

Element element_of(nb::handle dtype, Role role) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  return Buffer(numpy.attr("empty")(0, dtype), Access::read, role).element();
}

}  // namespace tutti::python

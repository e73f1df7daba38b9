// Any Python object that is one piece of memory, as the verbs see it: NumPy arrays, the buffer protocol, DLPack, and
// arrays of CUDA devices by __cuda_array_interface__ or DLPack.
//
// Nothing is copied. While a Buffer lives the object cannot be resized or freed. To be made and dropped with the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/element.h"

namespace tutti::python {

namespace nb = nanobind;

enum class Access : unsigned char { read, write };

// What an error has to say: "all_reduce: out".
struct Role {
  const char* verb;
  const char* name;
};

class Buffer {
 public:
  Buffer() = default;  // none
  // Throws where the object is no piece of memory of the host or of a CUDA device, is not contiguous, or may not be
  // written.
  Buffer(nb::handle object, Access access, Role role);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  bool given() const { return object_.is_valid(); }
  void* data() const { return data_; }
  const Element& element() const { return element_; }
  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t count() const { return count_; }
  // Along the first axis, and elements of each of them.
  std::size_t rows(Role role) const;
  std::size_t row_elements() const;
  const nb::object& object() const { return object_; }
  // Of a CUDA array: the stream that works on it, as it says; nullptr: none, or it does not say.
  void* stream() const { return stream_; }
  // Of NumPy, whatever the object is.
  nb::object dtype() const;

 private:
  bool take_buffer(nb::handle object, Access access, Role role);
  bool take_array(nb::handle object, Access access, Role role);
  bool take_cuda_array(nb::handle object, Access access, Role role);
  bool take_dlpack(nb::handle object, Access access, Role role);
  void require_contiguous(Role role) const;

  nb::object object_;
  Py_buffer view_{};            // held where view_.obj is set
  nb::ndarray<nb::ro> tensor_;  // held where it came by DLPack
  void* data_ = nullptr;
  void* stream_ = nullptr;
  Element element_ = DType::uint8;
  std::vector<std::size_t> shape_;
  std::size_t count_ = 0;
};

// "float32", "bfloat16", or "16 bytes" for elements that move as bytes.
std::string name_of_element(const Element& element);
// Throws where the elements of the two differ.
void require_same_elements(const Buffer& input, const Buffer& output, const char* verb);
// A new NumPy array whose elements are those of `like`.
nb::object empty_like(const Buffer& like, const std::vector<std::size_t>& shape);
// The element type of a NumPy dtype, or of what numpy.dtype() makes one of.
Element element_of(nb::handle dtype, Role role);

}  // namespace tutti::python

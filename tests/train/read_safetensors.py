"""Reads a safetensors file as the format says, with nothing but the standard library; prints a line per tensor.

With --package the same by the safetensors package; exit code 77 where there is none.
"""
import json
import struct
import sys


def by_hand(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length :]
    tensors, end = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = tensor["data_offsets"]
        elements = 1
        for extent in tensor["shape"]:
            elements *= extent
        assert tensor["dtype"] == "F32" and begin == end and after - begin == 4 * elements, name
        end = after
        tensors[name] = (tensor["shape"], data[begin:after])
    assert end == len(data) and (8 + length) % 8 == 0
    return metadata, tensors


def by_package(path):
    try:
        import numpy  # noqa: F401
        from safetensors import safe_open
    except ImportError:
        sys.exit(77)
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return file.metadata(), {name: (list(tensor.shape), tensor.tobytes()) for name, tensor in tensors.items()}


package = sys.argv[1] == "--package"
metadata, tensors = (by_package if package else by_hand)(sys.argv[-1])
print("step", metadata["step"], "rank", metadata["rank"], "of", metadata["ranks"])
for name in sorted(tensors):
    shape, content = tensors[name]
    words = struct.unpack(f"<{len(content) // 4}I", content)
    print(name, shape, sum((i + 1) * word for i, word in enumerate(words)) % 2**64)

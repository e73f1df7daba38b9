# The target `libtorch`: what find_package(Torch) gives.
#
# A PyTorch that was built with CUDA refuses find_package where no CUDA toolkit is installed, though a program for CPUs
# needs nothing of it. There its two libraries for CPUs are named by hand.
find_file(torch_config TorchConfig.cmake PATH_SUFFIXES Torch share/cmake/Torch REQUIRED)
cmake_path(GET torch_config PARENT_PATH torch_root)
cmake_path(SET torch_root NORMALIZE ${torch_root}/../../..)
find_package(CUDAToolkit QUIET)
add_library(libtorch INTERFACE)
if(EXISTS ${torch_root}/lib/libtorch_cuda.so AND NOT CUDAToolkit_FOUND)
  target_include_directories(libtorch SYSTEM INTERFACE
    ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
  target_link_libraries(libtorch INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
else()
  find_package(Torch REQUIRED)
  target_link_libraries(libtorch INTERFACE ${TORCH_LIBRARIES})
endif()

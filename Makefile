# A thin front to CMake: every target is a few commands that also work by hand (see CMakePresets.json).
# On Debian 12 a target first installs the packages it misses, and says so (scripts/bootstrap.sh); it configures the parts
# that those packages are for (scripts/configure.sh), so that `make demo` never stumbles over half of a test package.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

# gcc's thread sanitizer wants a predictable address space on recent kernels; setarch gives it where that is allowed.
PLAIN_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

build = @JOBS=$(JOBS) scripts/build.sh $(1)
ctest = ctest --preset $(1) --parallel $(JOBS)

.PHONY: help build install wheel demo test test-long test-torch test-gpu test-kernels test-view bench bench-torch bench-train asan tsan sanitize \
  sanitize-address sanitize-thread format tidy clean
help:
	@echo "Tutti: collective communication for distributed training. Start with make demo."
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "  make %-11s %s\n", $$1, $$2 }'

demo: ## a first look: every verb drawn as it happens, a network trained, then all_reduce drawn, verified and timed
	@scripts/bootstrap.sh build
	@scripts/configure.sh release build
	$(call build,release tutti_tool examples)
	@build/bin/tutti run -n 4 --no-prefix -- build/bin/cheatsheet
	@build/bin/tutti run -n 4 --no-prefix -- build/bin/digits --strategy zero1 --report
	@build/bin/tutti demo

build: ## library, command, examples and tests, into build/; programs land in build/bin/
	@scripts/bootstrap.sh build test
	@scripts/configure.sh release build test
	$(call build,release)

install: ## headers, library, command; into /usr/local, or make install PREFIX=folder (DESTDIR counts)
	@scripts/bootstrap.sh build
	@scripts/configure.sh release build
	$(call build,release tutti_library tutti_tool)
	@cmake --install build --prefix "$(PREFIX)" | tail -n +2 | sed 's/^-- //'

wheel: ## the Python package, for this Python; into build/wheels
	@scripts/bootstrap.sh build python
	@python=$$(scripts/python.sh package install) && \
	  CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) CMAKE_CXX_COMPILER_LAUNCHER=$$(command -v ccache) \
	  "$$python" -m pip wheel --quiet --no-build-isolation --no-deps --config-settings=build-dir=build/wheel . \
	  --wheel-dir build/wheels
	@ls build/wheels/*.whl

test: ## build, then run the tests (those labelled long are left out)
	@scripts/bootstrap.sh build test python
	@scripts/python.sh package install >/dev/null || echo "the Python package and its tests are left out"
	@scripts/configure.sh release build test python
	$(call build,release)
	@TORCH_PYTHON=$$(scripts/python.sh torch) $(call ctest,release)

test-torch: ## the tests that need PyTorch, the long ones too; it is installed outside the tree if it is missing
	@scripts/bootstrap.sh build test torch
	@scripts/configure.sh release build test
	$(call build,release torch_test_programs)
	@TORCH_PYTHON=$$(scripts/python.sh torch install) && export TORCH_PYTHON && $(call ctest,long) -R '[Tt]orch'

test-gpu: ## the tests of device memory on the GPU of this machine; skipped, saying so, where there is none
	@JOBS=$(JOBS) scripts/test-gpu.sh

test-kernels: ## every kernel for GPUs, compiled by NVRTC, which is installed outside the tree if it is missing; needs no GPU
	@scripts/bootstrap.sh build test
	@scripts/configure.sh release build test
	$(call build,release kernels_compile_test)
	@python=$$(scripts/python.sh nvrtc install) && \
	  TUTTI_NVRTC=$$("$$python" -c 'import glob, nvidia.cuda_nvrtc as n; print(*glob.glob(n.__path__[0] + "/lib/libnvrtc.so.*"))') && \
	  export TUTTI_NVRTC && $(call ctest,release) -R '^CompiledKernels'

test-view: ## the page of tutti view in a real Chromium, which it installs; PICTURES=1 takes the pictures of docs/view.md anew
	@scripts/bootstrap.sh build view
	@scripts/configure.sh release build
	$(call build,release tutti_tool)
	@/usr/bin/python3 tests/view/browser_test.py build/bin/tutti docs/pictures $(if $(PICTURES),--take)

test-long: ## as test, with the long ones
	@scripts/bootstrap.sh build test python
	@scripts/python.sh package install >/dev/null || echo "the Python package and its tests are left out"
	@scripts/configure.sh release build test python
	$(call build,release)
	@TORCH_PYTHON=$$(scripts/python.sh torch) $(call ctest,long)

# $(call sanitized,preset,targets,options of ctest)
plain = $(if $(filter tsan,$(1)),$(PLAIN_ADDRESSES))
define sanitized
@scripts/bootstrap.sh build test
@scripts/configure.sh $(1) build test
@JOBS=$(JOBS) $(plain) scripts/build.sh $(1) $(2)
@$(plain) $(call ctest,$(1)) $(3)
endef

asan: ## the tests under the address and undefined-behaviour sanitizers, in build-asan/
	$(call sanitized,asan)

tsan: ## the tests under the thread sanitizer, in build-tsan/
	$(call sanitized,tsan)

sanitize: sanitize-address sanitize-thread ## engine, transports and meeting under both of these: what .ci/run adds to test

sanitize-address:
	$(call sanitized,asan-quick,sanitized_programs,--label-regex sanitized)

# Simulations have one thread, and what processes share is no memory of the sanitizer's: threads and TCP stand for them.
sanitize-thread:
	$(call sanitized,tsan,sanitized_programs,--label-regex sanitized --exclude-regex '^Sim|/processes|_v6')

bench: ## the figures of this machine, beside the peers it installs (BENCHES=kernels_bench for kernels); keep it idle
	@scripts/bootstrap.sh build bench
	@scripts/configure.sh release build bench
	$(call build,release bench_programs)
	@scripts/bench.sh $(BENCHES)

bench-torch: ## PyTorch over Tutti beside PyTorch over gloo, and a training step (RANKS=8 for more ranks); keep it idle
	@scripts/bootstrap.sh build torch
	@scripts/configure.sh release build
	$(call build,release tutti_library tutti_tool)
	@TORCH_PYTHON=$$(scripts/python.sh torch install) && export TORCH_PYTHON && tests/torch/run.sh $(CURDIR)/build \
	  $(CURDIR)/bench/torch_bench.py --ranks $(or $(RANKS),2) --json $(CURDIR)/build/torch_bench.json

bench-train: ## training in C++ beside DDP and FSDP2 (RANKS=4, THREADS=3 for more cores); keep it idle
	@scripts/bootstrap.sh build torch
	@scripts/configure.sh release build
	$(call build,release tutti_library tutti_tool)
	@TORCH_PYTHON=$$(scripts/python.sh torch install) && export TORCH_PYTHON && tests/torch/run.sh $(CURDIR)/build \
	  $(CURDIR)/bench/torch_train.py --ranks $(or $(RANKS),2) --threads $(or $(THREADS),1) \
	  --json $(CURDIR)/build/torch_train.json

format: ## rewrite the sources with clang-format
	@scripts/bootstrap.sh format
	@git ls-files --cached --others --exclude-standard '*.h' '*.cc' | xargs clang-format -i

tidy: ## clang-tidy over src and tools
	@scripts/bootstrap.sh build tidy
	@scripts/configure.sh tidy build
	@git ls-files --cached --others --exclude-standard 'src/*.cc' 'tools/*.cc' \
	  | xargs --max-procs=$(JOBS) --max-args=1 clang-tidy -p build-tidy --quiet

clean: ## remove what was built
	@rm -rf build build-debug build-asan build-asan-quick build-tsan build-tidy

# The whole project in one word each; `make help` lists them. Below them are plain CMake presets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
OUT ?= demo-out
ISOCHRON_WERROR ?= OFF

# Clones of this tree share the ccache cache. With precompiled headers, ccache stores only what it is told to trust.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime
# And the device kernels that tests have compiled.
ifneq ($(shell command -v ccache),)
export ISOCHRON_HOST_KERNELS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/isochron-host-kernels
endif

command := build/release/bin/isochron
cmake_flags := -DISOCHRON_TESTS=ON -DISOCHRON_WERROR=$(ISOCHRON_WERROR) \
  $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
sources = $$(find apps autograd backends bench comm core data examples graph memory nn observe ops optim tests train \
  -name '*.h' -o -name '*.cc' -o -name '*.cu') isochron.h

# $(call configure,preset) and $(call run_tests,preset,excluded label); ctest prints the summary and fails if there is no test.
# One label is excluded: single, tests that each run in their own process; or whole, the same tests, many in one process and in
# random order.
configure = cmake --preset $(1) $(cmake_flags) --log-level=WARNING >/dev/null
run_tests = ctest --test-dir build/$(1) --output-on-failure --no-tests=error --progress -j $(JOBS) -LE $(2)

.PHONY: help demo test cuda asan tsan fuzz bench device-bundle export-tools ops-reference format check-format check-layers install-check tidy deps clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: deps  ## build, train on the shipped data, run the comparisons; results in demo-out
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS) --target isochron_command
	mkdir -p $(OUT)
	run() {  # run NAME ARGUMENT...: one run of the command, shown here and kept in $(OUT)/NAME.txt
	  local name=$$1; shift
	  printf '\n$$ isochron %s\n' "$$*"
	  $(command) "$$@" | tee "$(OUT)/$$name.txt"
	}
	run train-digits train digits
	run train-co2 train co2 --out $(OUT)/co2
	run compare compare gpu-memory growing-graph --budget 60 --out $(OUT) --json $(OUT)/compare.json
	printf '\nResults are in %s:\n' "$$(realpath $(OUT))"
	ls $(OUT) | sed 's/^/  /'

test: deps  ## build everything in release and run every test, each in its own process
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS)
	$(call run_tests,release,whole)

# Up to GCC 13 the runtime mistakes a thread-local block of a loaded library for one with a header of glibc before 2.25 if its
# address happens to look like that; the leak check then reads past it and dies. Without that interception it ignores such blocks.
# Too large an allocation returns null there as elsewhere: a test checks that it is reported as an error.
asan: deps  ## the tests, many in one process and in random order, under the address and undefined-behavior sanitizers
	@$(call configure,asan)
	cmake --build --preset asan -j $(JOBS)
	ASAN_OPTIONS=intercept_tls_get_addr=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 $(call run_tests,asan,single)

# The toolkit's headers and libraries are enough: no device is needed, and tests that need one are skipped.
cuda: deps  ## the tests of a build that demands the CUDA Toolkit
	@$(call configure,cuda)
	cmake --build --preset cuda -j $(JOBS)
	$(call run_tests,cuda,whole)

# Libraries that aren't built for the sanitizer (oneDNN) are left out: it doesn't see the barriers within them.
tsan: deps  ## the tests under the thread sanitizer
	@$(call configure,tsan)
	cmake --build --preset tsan -j $(JOBS)
	TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1 $(call run_tests,tsan,whole)

# Inputs that reached new code paths are kept in build/fuzz/corpus for the next run. Inputs that break a target are in
# build/fuzz/findings; after the fix they belong in tests/fuzz/seeds.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $$(build/fuzz/bin/fuzz --list)
fuzz: deps  ## libFuzzer on every parser, FUZZ_SECONDS each (clang 16)
	@scripts/install-deps.sh fuzz
	$(call configure,fuzz)
	cmake --build --preset fuzz -j $(JOBS) --target fuzz
	mkdir -p build/fuzz/findings
	for target in $(FUZZ_TARGETS); do
	  mkdir -p build/fuzz/corpus/$$target
	  printf '\n%s, %s s\n' "$$target" "$(FUZZ_SECONDS)"
	  build/fuzz/bin/fuzz --target=$$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
	    -print_final_stats=1 -verbosity=0 -artifact_prefix=build/fuzz/findings/$$target- \
	    build/fuzz/corpus/$$target tests/fuzz/seeds/$$target
	done

# PyTorch, TensorFlow and JAX take some gigabytes and minutes to install, once; NAME is the name of the file in bench/results.
PEERS ?= build/peers
NAME ?= $(shell hostname)
ROUNDS ?= 2
SECONDS_EACH ?= 2.5
bench: deps  ## the reference cases beside PyTorch, TensorFlow and JAX; results in bench/results, the README and docs/benchmarks.md
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS) --target isochron_command
	[ -e $(PEERS)/torch/complete ] && [ -e $(PEERS)/tf/complete ] || { scripts/install-deps.sh peers; bench/peers/setup.sh $(PEERS); }
	bench/peers/run_all.py --peers $(PEERS) --isochron $(command) --rounds $(ROUNDS) --seconds $(SECONDS_EACH) --name $(NAME)
	scripts/readme_table.py --results bench/results/$(NAME).json

export-tools:  ## Chromium, Graphviz and, in build/tools, TensorBoard: for the tests that open exports with them
	@scripts/install-deps.sh viewers
	[ -x build/tools/bin/python ] || python3 -m venv build/tools
	build/tools/bin/python -m pip install --quiet tensorboard

device-bundle: deps  ## build/device-bundle.tar.gz: all that scripts/first-device.sh needs on a machine without a compiler
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS) --target isochron_command core_test
	scripts/device-bundle.sh $(command) build/device-bundle.tar.gz

ops-reference: deps  ## write docs/ops.md from the registry of ops
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS) --target ops_test
	ISOCHRON_WRITE_OPS_REFERENCE=1 build/release/bin/ops_test --gtest_brief=1 --gtest_filter='OpReference.*'

format:  ## rewrite all sources in the project's format
	@clang-format -i $(sources)

check-format:  ## fail when a source is not in the project's format
	@clang-format --dry-run -Werror $(sources)
	echo "format: all sources conform"

check-layers:  ## fail when an include points upward or a header breaks its rules
	@python3 scripts/check_layers.py --self-test
	python3 scripts/check_layers.py

install-check: deps  ## build a small program against the installed package
	@$(call configure,release)
	cmake --build --preset release -j $(JOBS)
	scripts/install-check.sh build/release

tidy: deps  ## clang-tidy over the library (slow)
	@$(call configure,debug)
	run-clang-tidy -quiet -p build/debug -j $(JOBS) '/(apps|autograd|backends|comm|core|data|graph|memory|nn|observe|ops|optim|train)/[^.]*\.cc$$'

deps:  ## install missing packages (Debian, Ubuntu)
	@scripts/install-deps.sh

clean:  ## remove the builds and demo-out; what fuzzing found, peers and tools stay
	@rm -rf build/release build/cuda build/debug build/asan build/tsan $(OUT)
	@find build/fuzz -mindepth 1 -maxdepth 1 ! -name corpus ! -name findings -exec rm -rf {} + 2> /dev/null || true

# The front door.  `make run` starts a server, `make test` checks everything that
# needs no GPU; the rest is for people who change things.  Work happens in tools/.
PREFIX ?= /usr/local
.PHONY: run build test test-long test-gpu chaos bench fuzz format lint install clean help

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

run: build       ## install what is missing, build, start router + node with the demo model
	@tools/run

build:           ## release build: build/release/bin/llm-router and build/release/engines/
	@tools/setup
	@tools/build release

test:            ## everything that runs without a GPU, in under 8 minutes on 2 cores
	@tools/setup test
	@tools/test

test-long:       ## the same promises at the sizes the documents state
	@tools/setup test
	@tools/test --long

test-gpu:        ## what needs an NVIDIA GPU
	@tools/test-gpu

chaos:           ## faults under load, every answer checked: SEED=n MINUTES=m DATABASE=sqlite|postgres
	@tools/setup test
	@tools/build release
	@SEED=$(SEED) MINUTES=$(MINUTES) DATABASE=$(DATABASE) tools/chaos

bench:           ## measure; results are printed, bench/results/ keeps the ones we quote
	@tools/setup test
	@tools/build release
	@bench/run

fuzz:            ## every fuzz target, FUZZ_SECONDS each (default 600)
	@tools/setup test
	@tools/fuzz

format:          ## C, JavaScript and shell in the form that lint checks
	@tools/format

lint:            ## C, JavaScript, shell, CMake, YAML, links in docs, layers, duplicates
	@tools/setup test
	@tools/lint

install: build   ## to $(PREFIX), DESTDIR honoured
	@cmake --install build/release --prefix $(PREFIX)

clean:           ## forget every build
	@rm -rf build

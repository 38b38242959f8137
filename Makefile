# The commands of this repository.  `make run` starts a server; `make test` runs every test that
# needs no GPU; the other targets are for contributors.  The scripts are in tools/.
PREFIX ?= /usr/local
.PHONY: run build test test-long test-gpu test-platforms dist dist-apt release-check chaos bench fuzz format lint install clean help deb

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

run: build       ## install missing packages, build, start router + node with the demo model
	@tools/run

build:           ## release build: build/release/bin/llm-router and build/release/engines/
	@tools/setup
	@tools/build release
	@tools/engines

test:            ## every test that needs no GPU, in under 8 minutes on 2 cores
	@tools/setup test
	@tools/test

test-long:       ## the same tests at the full sizes that the documents state, and coding agents as clients
	@tools/setup long
	@tools/test --long

test-gpu:        ## the tests that need an NVIDIA GPU
	@tools/test-gpu

test-platforms:  ## make the archives, look into them, and run them in emulators (docs/porting.md)
	@tools/setup platforms
	@tools/test-platforms

chaos:           ## chaos test, faults under load, every answer checked: SEED=n MINUTES=m DATABASE=sqlite|postgres
	@tools/setup test
	@tools/build release
	@SEED=$(SEED) MINUTES=$(MINUTES) DATABASE=$(DATABASE) tools/chaos

bench:           ## run the benchmarks and print the results; bench/results/ has the quoted ones
	@tools/setup test
	@tools/build release
	@bench/run

fuzz:            ## run every fuzz target, FUZZ_SECONDS each (default 600)
	@tools/setup test
	@tools/fuzz

format:          ## format C, JavaScript and shell as lint expects
	@tools/format

lint:            ## check C, JavaScript, shell, CMake, YAML, links in docs, layers, duplicates
	@tools/setup test
	@tools/lint

install: build   ## install into $(PREFIX), below DESTDIR if set
	@cmake --install build/release --prefix $(PREFIX)

deb:             ## Debian package of the release build: build/llm-router_VERSION_ARCH.deb (VERSION=v for another one)
	@tools/setup deb
	@tools/build release
	@tools/deb $(if $(VERSION),--version $(VERSION))

dist:            ## release archives for Linux (x64, arm64), Windows and macOS: build/dist
	@tools/setup platforms
	@tools/dist

dist-apt: deb    ## static apt repository of the Debian package, signed with the OpenPGP key KEY: build/apt
	@tools/setup release
	@tools/release-apt build/apt "$(KEY)" build/llm-router_*.deb

release-check:   ## everything of a release but its publication: VERSION=v KEY=release.pem
	@tools/setup release
	@tools/release-check "$(VERSION)" "$(KEY)"

clean:           ## delete every build
	@rm -rf build

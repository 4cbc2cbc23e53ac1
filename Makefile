# Everything here is one go command or one step of .ci/run. Tests need Go only.

FUZZTIME ?= 30s
BENCH    ?= .
PKG      ?= ./...
ARGS     ?=

.DEFAULT_GOAL := help
.PHONY: help test race invariants lint fuzz crash crash-long bench generate build run cover ci

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

test: ## run all tests
	go test ./...

race: ## run all tests but the crash loops with the race detector, invariants on
	.ci/run race

invariants: ## run the tests of the engines with our invariants and those of Pebble
	.ci/run invariants

lint: ## check format, go.mod, vet, staticcheck and the rules of the repository
	.ci/run format modules vet staticcheck rules

fuzz: ## run every fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) .ci/run fuzz

crash: ## run the crash loops: power cuts, I/O errors, killed processes
	.ci/run crash

crash-long: ## run the crash loops with many more seeds and places: an hour
	go test -tags invariants -count=1 -timeout 0 ./internal/crashtest -args -crash.long

bench: ## run the benchmarks that match BENCH (.) in PKG (./...)
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

generate: ## write the generated code again
	go generate ./...

build: ## build the program to bin/mainstem
	go build -o bin/ ./cmd/mainstem

run: ## run the program, with ARGS: make run ARGS='serve --help'
	go run ./cmd/mainstem $(ARGS)

cover: ## measure the coverage of PKG (./...), summed up by function in cover.out
	go test -coverprofile cover.out $(PKG)
	go tool cover -func cover.out | tail -n 1

ci: ## run all that continuous integration runs
	.ci/run

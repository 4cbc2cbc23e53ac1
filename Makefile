# Everything here is one go command or one step of .ci/run. Tests need Go only.

FUZZTIME ?= 30s
BENCH    ?= .
PKG      ?= ./...
ARGS     ?=
COMMIT   ?= HEAD~1
RUNNER    = go -C bench run .
RESULTS   = ../bench-results.json
SCALE     = ../bench-scale.json
BASELINE  = ../bench-baseline.json

.DEFAULT_GOAL := help
.PHONY: help test race invariants lint fuzz crash crash-long bench generate build run cover ci
.PHONY: benchmark benchmark-quick benchmark-full benchmark-scale benchmark-storage benchmark-protocol benchmark-client benchmark-server
.PHONY: benchmark-report benchmark-baseline benchmark-compare benchmark-since

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

test: ## run all tests
	go test ./...

race: ## run the tests with the race detector and invariants, but for crash loops, scripts and examples
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

benchmark: ## measure everything against its peers, quickly, and show the tables
	$(RUNNER) run --quick --out $(RESULTS) $(ARGS)

benchmark-quick: benchmark ## the same

# An entry that fails makes the first run fail; the scale tests run all the same.
benchmark-full: ## measure everything with many rounds, then the scale tests: hours
	@trap 'exit 130' INT; status=0; \
	($(RUNNER) run --out $(RESULTS) $(ARGS)) || status=$$?; \
	($(RUNNER) run --scale --out $(SCALE) $(ARGS)) || status=$$?; \
	exit $$status

benchmark-scale: ## run the scale tests only, of a million keys, events, actors
	$(RUNNER) run --scale --out $(SCALE) $(ARGS)

benchmark-storage: ## measure the storage of streams
	$(RUNNER) run stream/storage --out $(RESULTS) $(ARGS)

benchmark-protocol: ## measure encoding and decoding of Kafka's protocol
	$(RUNNER) run stream/protocol --out $(RESULTS) $(ARGS)

benchmark-client: ## measure producers and consumers
	$(RUNNER) run stream/client --out $(RESULTS) $(ARGS)

benchmark-server: ## measure the footprint of servers
	$(RUNNER) run footprint --out $(RESULTS) $(ARGS)

benchmark-report: ## write docs/bench with the report and the plots of the last run
	$(RUNNER) report $(RESULTS) --dir ../docs/bench

benchmark-baseline: ## keep the last run for benchmark-compare
	$(RUNNER) baseline --from $(RESULTS) --out $(BASELINE)

benchmark-compare: ## measure now and compare with what benchmark-baseline kept
	$(RUNNER) compare $(BASELINE) $(ARGS)

benchmark-since: ## compare this tree with COMMIT (HEAD~1), in turns
	$(RUNNER) compare $(COMMIT) $(ARGS)

generate: ## write the generated code again
	go generate ./...

build: ## build the program to bin/mainstem, without the tables for debuggers
	go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/mainstem

run: ## run the program, with ARGS: make run ARGS='serve --help'
	go run ./cmd/mainstem $(ARGS)

cover: ## measure the coverage of PKG (./...), summed up by function in cover.out
	go test -coverprofile cover.out $(PKG)
	go tool cover -func cover.out | tail -n 1

ci: ## run all that continuous integration runs
	.ci/run

package runner

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// protocolVersion is that of the messages between the bench and the processes of
// its contenders. Builds that do not share one cannot take turns.
const protocolVersion = 1

// Executor executes entries, one at a time. It is not for use by several goroutines.
type Executor interface {
	// Open starts an entry. Its error is one of [*Failure].
	Open(ctx context.Context, o Opening) error
	// Round does one round of the open entry.
	Round(ctx context.Context, a Assignment) (Measured, error)
	// Shut closes the open entry, if there is one.
	Shut(ctx context.Context) error
	// Close ends the executor, whatever it is doing.
	Close() error
}

// Opening says which entry to start, and where.
type Opening struct {
	Entry     string            `json:"entry"` // suite/case/contender
	Dir       string            `json:"dir"`
	Addresses map[string]string `json:"addresses,omitempty"`
	Quick     bool              `json:"quick,omitempty"`
}

// Assignment is one round to do.
type Assignment struct {
	Ops   int `json:"ops"`
	Every int `json:"every"` // one latency in so many is recorded
}

// Measured is what a round came to.
type Measured struct {
	Elapsed   time.Duration `json:"elapsed"`
	Bytes     uint64        `json:"bytes"`  // allocated in the process meanwhile
	Allocs    uint64        `json:"allocs"` // number of allocations meanwhile
	Histogram []byte        `json:"histogram,omitempty"`
	Marks     []result.Mark `json:"marks,omitempty"`
	Metrics   []measure     `json:"metrics,omitempty"`
}

// measure is one metric of one round.
type measure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	More  bool    `json:"more,omitempty"`
}

// Failure is why an entry has no result.
type Failure struct {
	Skip   bool   `json:"skip,omitempty"` // it cannot run here; else it ran and failed
	Reason string `json:"reason"`
	// Broken is true if the executor is of no more use.
	Broken bool `json:"broken,omitempty"`
}

// Error returns the reason.
func (f *Failure) Error() string { return f.Reason }

// failure returns err as a Failure: one that broke the executor unless it says else.
func failure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Reason: err.Error(), Broken: true}
}

// request is what the bench sends to a process: one field is set.
type request struct {
	Open  *Opening    `json:"open,omitempty"`
	Round *Assignment `json:"round,omitempty"`
	Shut  bool        `json:"shut,omitempty"`
}

// reply is what comes back: first of all the version, then one for each request.
type reply struct {
	Version  int       `json:"version,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	Measured *Measured `json:"measured,omitempty"`
}

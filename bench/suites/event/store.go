package event

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// ErrConflict is what [Store.Append] answers if the stream is at another version.
var ErrConflict = errors.New("the stream is at another version")

// What an append may expect besides a version above 0.
const (
	AnyVersion int64 = -1
	NoStream   int64 = 0
)

// Event is what is appended.
type Event struct {
	Type     string
	Data     []byte
	Metadata *Metadata // nil if there is none
}

// Metadata is who and why.
type Metadata struct {
	Correlation, Causation, User, Tenant string
	Custom                               map[string]string
}

// Recorded is an event as it comes back.
type Recorded struct {
	Event
	Stream   string // only a feed and a subscription need to set it
	Version  uint64 // place in its stream, from 1 without holes
	Position uint64 // place in the order of all streams
}

// Info describes a stream.
type Info struct {
	Version uint64 // of the newest event
	Count   uint64 // events
}

// Store is a contender. All methods may be called from many goroutines. Events
// given to Append are borrowed until it returns; what comes back belongs to the
// caller. When Append returns, the events have the durability that the factory states.
type Store interface {
	// Append appends all events to stream or none, and returns the version of the
	// last. It is ErrConflict if the stream is not at version expected.
	Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error)
	// Load appends the events of stream from version from on to into, oldest first. A
	// stream that does not exist has none.
	Load(ctx context.Context, stream string, from uint64, into []Recorded) ([]Recorded, error)
	// Feed appends up to limit events after a position to into, in the order of all
	// streams. Positions grow, and may have gaps.
	Feed(ctx context.Context, after uint64, limit int, into []Recorded) ([]Recorded, error)
	Info(ctx context.Context, stream string) (Info, error)
	// LastPosition returns the position of the newest event. If there is none it is
	// less than that of the next.
	LastPosition(ctx context.Context) (uint64, error)
	// Clear removes all events. It is never timed.
	Clear(ctx context.Context) error
	// Close releases everything, servers that Open started included.
	Close() error
}

// Subscriber is a [Store] that tells of appends.
type Subscriber interface {
	// Subscribe calls each for every event after a position, in order, and goes on
	// with those that come, until ctx ends; then it returns, and each is not called
	// any more. What each is given is lent until it returns.
	Subscribe(ctx context.Context, after uint64, each func(*Recorded)) error
}

// Sizer is a [Store] that knows better than the files in its directory what its
// events take.
type Sizer interface {
	DiskBytes(ctx context.Context) (int64, error)
}

// Factory is a contender.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	// Transport is how an operation reaches the data; it is shown in every row.
	Transport suite.Transport
	// Address is as in [suite.Entry]: of a server that the user names.
	Address string
	Note    string      // one sentence on what is particular to it, if anything
	Lacks   suite.Lacks // cases that the contender cannot run
	// ScaleEvents is how many events the scale tests append; default 1,000,000.
	// Contenders that wait for a network or a disk for each event take fewer.
	ScaleEvents int
	// Restarts is true if Open opens what a store left in dir, closed or killed.
	Restarts bool
	// Skip is as in [suite.Entry]; nil means that the contender can always run.
	Skip func(env *suite.Env) string
	// Open opens a store with its files in dir, which is there; empty, or with what a
	// store left. An error that matches [suite.ErrSkip] skips the case.
	Open func(ctx context.Context, env *suite.Env, dir string) (Store, error)
}

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Suite is a named list of entries.
type Suite struct {
	Name    string // as in `bench run NAME`
	About   string // one sentence for people
	Entries []Entry
	Servers []Server // the servers that the entries ask for with [Env.Serve]
}

// Entry is one contender in one case of a suite. Entries of the same Suite and
// Case are compared with each other: they must do the same work on the same data.
type Entry struct {
	Suite string // "kv"
	Case  string // "set", "append/batch-100"; words of lower case, parts separated by slashes
	// Contender names who is measured, the same in every suite, so that it has one
	// colour everywhere: "mainstem-pebble-fsync", "nats-kv", "bbolt".
	Contender string
	// Durability is what a write has reached when an operation returns. It is shown
	// in every row, so that nobody compares fsync with none.
	Durability Durability
	// Transport is how the contender is reached. It too is shown in every row: what
	// calls a library is not what talks to a server. "" is shown as unknown.
	Transport Transport
	// Address is the kind of address, of [Env].Addresses, of a server that the user
	// names; "" for all others. [Entry.Reached] looks there where it is.
	Address string
	About   string // one sentence on the case: what one operation is
	Note    string // one sentence on what is particular to this contender in this case, if anything

	Op         string // what one operation handles, in the singular: "event", "key"; "" means "op"
	Items      int    // how many of them one operation handles; 0 means 1
	BytesPerOp int64  // payload of one operation, for MB/s; 0 means that it makes no sense
	Clients    int    // goroutines that Run uses; 0 means 1

	// Primary names the metric of [Round.Metrics] by which the entries of a case are
	// compared; "" means the time of an operation.
	Primary string
	// Curve joins cases of one suite to a curve, such as throughput against clients.
	Curve *Curve

	// Fixed is the number of operations of every round. 0 means as many as fit the
	// time of a round. A case that must not be repeated at will, such as "append a
	// million events", sets it.
	Fixed int
	// Least is the number of operations that a round has at least, however short its
	// time, where something of a round is shared among them: a connection that is made.
	Least int
	// Fresh asks for a new Start for every round, in a process of its own: for what
	// can happen only once (a cold start, a recovery) and for memory of a process.
	Fresh bool
	// Scale marks an entry that runs only when scale tests are asked for. With Fixed it
	// is Fresh too: the data of one contender are there at a time.
	Scale bool

	// Skip returns why the entry cannot run here, "" if it can; nil means it can. It
	// is quick and changes nothing: `bench list` calls it. [Skipf] is for what shows
	// only in Start.
	Skip func(env *Env) string
	// Start opens the contender and prepares the case, untimed. ctx bounds the whole
	// entry, not only Start. What Start made, Round.Close removes; if Start fails it
	// leaves nothing behind but files in env.Dir.
	Start func(ctx context.Context, env *Env) (*Round, error)
}

// Name returns "suite/case/contender".
func (e *Entry) Name() string { return e.Suite + "/" + e.Case + "/" + e.Contender }

// Notes joins what there is to say of a contender.
func Notes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")
}

// Lacks says which cases a contender cannot run, and why: by the name of a case, or by
// its part before the first slash.
type Lacks map[string]string

// Reason returns why a case cannot run, "" if nothing is said of it.
func (l Lacks) Reason(name string) string {
	if reason := l[name]; reason != "" {
		return reason
	}
	family, _, _ := strings.Cut(name, "/")
	return l[family]
}

// Curve places a case on a curve. Cases with the same Name in the same suite are
// its points.
type Curve struct {
	Name string // "append"
	Axis string // what X counts: "clients", "bytes"
	X    float64
}

// Durability says how far a write has got when the operation returns.
type Durability string

// The durabilities. Contenders may have others; a few words each.
const (
	None     Durability = "none"     // nothing is kept: a codec, a channel
	Memory   Durability = "memory"   // lost when the process ends
	OS       Durability = "os"       // with the operating system: survives a killed process
	Interval Durability = "interval" // synced at intervals: a power cut loses the last of them
	Fsync    Durability = "fsync"    // on stable storage: survives a power cut
)

// Round is a started entry. Run is required, all else may be nil.
type Round struct {
	// Prepare makes the next n operations possible, untimed: the keys that a delete
	// will delete, the records that a fetch will fetch.
	Prepare func(ctx context.Context, n int) error
	// Run does n operations, wholly: when it returns, what was asked for has happened,
	// at the durability stated. It records the latency of each in rec. It fails at the
	// first wrong answer that it sees without spending time on looking.
	Run func(ctx context.Context, n int, rec *Recorder) error
	// Check verifies the answers of the last Run, untimed: that what was written is
	// there and that what was read is what was written last. Its error fails the row.
	Check func(ctx context.Context) error
	// Metrics measures what is not time, after a round: bytes on disk, memory.
	Metrics func(ctx context.Context) ([]Metric, error)
	// Close releases everything. It is called once, after errors too.
	Close func() error
}

// Metric is a number measured beside the time.
type Metric struct {
	Name  string  // "disk", "resident"; words of lower case, joined by hyphens
	Unit  string  // "B", "B/record", "ns", "1" for a count, "x" for a ratio
	Value float64 // finite
	More  bool    // more is better
}

// ErrSkip is what errors of [Skipf] are.
var ErrSkip = errors.New("skipped")

type skipError struct{ reason string }

func (e *skipError) Error() string        { return e.reason }
func (e *skipError) Is(target error) bool { return target == ErrSkip }

// Skipf returns an error that makes Start skip its entry with a reason: a server
// that does not answer, a feature that this version of it lacks.
func Skipf(format string, args ...any) error {
	return &skipError{fmt.Sprintf(format, args...)}
}

package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// Kind is what an operation did.
type Kind int

// The kinds of operations.
const (
	Commit Kind = iota
	Get         // the newest record of Key, none if it was absent
	Scan        // the newest record of every key of Space
	Feed        // every record of the log after position After
)

var kindNames = [...]string{"commit", "get", "scan", "feed"}

// String returns "commit", "get", "scan" or "feed".
func (k Kind) String() string {
	if k >= 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown kind"
}

// Outcome is what the client of a commit was told.
type Outcome int

// The outcomes.
const (
	Written    Outcome = iota // acknowledged: Receipt is set
	Conflict                  // a condition did not hold: Failed and Got are set
	NotWritten                // any other error that says so
	Unknown                   // the error leaves it open
)

var outcomeNames = [...]string{"written", "conflict", "not written", "unknown"}

// String returns "written", "conflict", "not written" or "unknown".
func (o Outcome) String() string {
	if o >= 0 && int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown outcome"
}

// Operation is one call of one client.
type Operation struct {
	Client       int
	Call, Return int64 // on the logical clock; 0 < Call < Return
	Kind         Kind

	// Commit
	Writes     []Record // Space, Key and Value; Version and Position do not count
	Conditions []mainstem.Condition
	Outcome    Outcome
	Receipt    mainstem.Receipt
	Failed     mainstem.Condition // the condition that failed
	Got        mainstem.Version   // and the version that it met

	// Reads
	Space, Key string
	After      mainstem.Position
	Seen       []Record
}

// Record is what an operation wrote or saw.
type Record struct {
	Space, Key, Value string
	Version           mainstem.Version
	Position          mainstem.Position
}

// String returns "space/key@version=value at position n".
func (r Record) String() string {
	return fmt.Sprintf("%s/%s@%d=%s at position %d", r.Space, r.Key, r.Version, r.Value, r.Position)
}

// Recorder collects the operations of many clients of one log.
type Recorder struct {
	log   mainstem.Log
	clock atomic.Int64

	mu struct {
		sync.Mutex
		clients    int
		operations []Operation
	}
}

// NewRecorder returns a recorder of what is done to log through its clients.
func NewRecorder(log mainstem.Log) *Recorder { return &Recorder{log: log} }

// Operations returns what was recorded so far. The slice belongs to the caller.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Operation(nil), r.mu.operations...)
}

// Client returns a new client. A client belongs to one goroutine.
func (r *Recorder) Client() *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.clients++
	return &Client{r: r, number: r.mu.clients}
}

// Client does one operation after the other and records each. Errors that a
// history has no place for, such as those of reads, are returned and make no
// operation.
type Client struct {
	r      *Recorder
	number int
}

func (c *Client) record(op Operation) {
	op.Client = c.number
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.mu.operations = append(c.r.mu.operations, op)
}

// Commit commits b, which may hold only puts of one item, and conditions. It
// returns what the log returned.
func (c *Client) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	op := Operation{Kind: Commit}
	for _, w := range b.Writes() {
		op.Writes = append(op.Writes, Record{Space: w.Space, Key: string(w.Key), Value: string(w.Value)})
	}
	op.Conditions = append(op.Conditions, b.Conditions()...)
	op.Call = c.r.clock.Add(1)
	receipt, err := c.r.log.Commit(ctx, b)
	op.Return = c.r.clock.Add(1)
	op.Receipt = receipt
	var failure *mainstem.Error
	switch {
	case err == nil:
	case errors.Is(err, mainstem.ErrUnknownOutcome), !errors.As(err, &failure):
		op.Outcome = Unknown
	case failure.Kind == mainstem.KindConflict:
		op.Outcome, op.Failed, op.Got = Conflict, failure.Want, failure.Got
	default:
		op.Outcome = NotWritten
	}
	c.record(op)
	return receipt, err
}

// Get reads the newest record of a key. An absent key is no error: the record
// is zero then.
func (c *Client) Get(ctx context.Context, space, key string) (Record, error) {
	op := Operation{Kind: Get, Space: space, Key: key, Call: c.r.clock.Add(1)}
	rec, err := c.r.log.Get(ctx, space, []byte(key))
	op.Return = c.r.clock.Add(1)
	if errors.Is(err, mainstem.ErrNotFound) {
		c.record(op)
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	op.Seen = []Record{seen(rec)}
	c.record(op)
	return op.Seen[0], nil
}

// Scan reads the newest record of every key of a space.
func (c *Client) Scan(ctx context.Context, space string) error {
	op := Operation{Kind: Scan, Space: space, Call: c.r.clock.Add(1)}
	for rec, err := range c.r.log.Scan(ctx, space, mainstem.Range{}) {
		if err != nil {
			return err
		}
		op.Seen = append(op.Seen, seen(rec))
	}
	op.Return = c.r.clock.Add(1)
	c.record(op)
	return nil
}

// Feed reads every record after a position and returns the last position seen,
// or after if there was none.
func (c *Client) Feed(ctx context.Context, after mainstem.Position) (mainstem.Position, error) {
	op := Operation{Kind: Feed, After: after, Call: c.r.clock.Add(1)}
	for rec, err := range c.r.log.Feed(ctx, mainstem.Filter{After: after}) {
		if err != nil {
			return after, err
		}
		op.Seen = append(op.Seen, seen(rec))
	}
	op.Return = c.r.clock.Add(1)
	c.record(op)
	if n := len(op.Seen); n > 0 {
		after = op.Seen[n-1].Position
	}
	return after, nil
}

func seen(r mainstem.Record) Record {
	return Record{Space: r.Space, Key: string(r.Key), Value: string(r.Value), Version: r.Version, Position: r.Position}
}

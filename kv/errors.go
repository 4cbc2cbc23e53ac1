package kv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

var (
	errEmptyKey = errors.New("the key is empty")
	errNoFeed   = errors.New("the table has NoFeed: nothing can follow its changes")
)

// notWritten returns err with the outcome NotWritten.
func notWritten(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Outcome == mainstem.NoOutcome {
		return e.WithOutcome(mainstem.NotWritten)
	}
	return err
}

func (b *Bucket[T]) encodeError(op, key string, err error) error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.space, Key: []byte(key), Outcome: mainstem.NotWritten, Err: err}
}

func (b *Bucket[T]) decodeError(op string, r *mainstem.Record, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, op, "revision %d: %w", r.Version, err).At(b.space, r.Key).
		WithHint("the value was written with another codec or type; read the table as []byte with codec.Raw to see it")
}

// IndexedError reports that a plain [Bucket] cannot write to a table that has indexes, because it
// would not maintain them. Nothing was written. It is Invalid. As the error of a batch's Commit it
// also matches the Conflict of that commit, but trying again does not help.
type IndexedError struct {
	Table   string   // "database/table"
	Indexes []string // their names; nil if they could not be read

	conflict *mainstem.Error // of a batch; nil for an immediate write
}

// Error names the table and its indexes.
func (e *IndexedError) Error() string {
	return fmt.Sprintf("table %s has indexes (%s), which this write would not keep; open it with kv.OpenIndexed", e.Table, strings.Join(e.Indexes, ", "))
}

// Unwrap makes the error one of kind Invalid and, for a batch, also of kind Conflict.
func (e *IndexedError) Unwrap() []error {
	out := []error{&mainstem.Error{Kind: mainstem.KindInvalid, Op: "kv", Outcome: mainstem.NotWritten}}
	if e.conflict != nil {
		out = append(out, e.conflict)
	}
	return out
}

// atOnce returns err for an immediate write, where a Conflict could only mean that the caller's
// condition did not hold.
func atOnce(err error) error {
	var e *IndexedError
	if errors.As(err, &e) {
		return &IndexedError{Table: e.Table, Indexes: e.Indexes}
	}
	return err
}

// UniqueError reports that a write would give two keys the same value in a unique index. Nothing
// was written. It is Exists.
type UniqueError struct {
	Table  string // "database/table"
	Index  string
	Value  []Part
	Key    string // the key of the refused write
	HeldBy string // the key that has it
}

// Error names the index, the value and the key that has it.
func (e *UniqueError) Error() string {
	return fmt.Sprintf("table %s: key %.64q: the unique index %s has %v already, for key %.64q", e.Table, e.Key, e.Index, e.Value, e.HeldBy)
}

// Unwrap makes it an error of kind Exists.
func (e *UniqueError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindExists, Op: "kv", Outcome: mainstem.NotWritten}
}

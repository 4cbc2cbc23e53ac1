package mainstem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Op is the operation of a [Write]. The numbers are sent over the wire: add new ones only at the
// end.
type Op uint8

// The operations.
const (
	// OpPut writes a record: the key's version advances by Count.
	OpPut Op = iota
	// OpDelete writes a tombstone if the key is live; otherwise it does nothing.
	OpDelete
	// OpPurge writes a tombstone if the key is live, and removes all older records of the key.
	OpPurge
	// OpForget removes every record of the key and writes nothing: readers and
	// followers see no trace. The key's versions still never repeat.
	OpForget
	// OpTruncate removes the records of the key whose items all have versions
	// below Version. The key's next version does not change, even if no record is left.
	OpTruncate
	// OpRewrite replaces the value and headers of the record that ends at Version; its version,
	// count, position and time do not change. Of a tombstone it replaces only the headers. It
	// serves compaction and redaction.
	OpRewrite
	// OpRemove removes the one record that ends at Version. If it is the newest, the
	// key has no live value afterwards: an older one does not come back.
	OpRemove
)

var opNames = [...]string{"put", "delete", "purge", "forget", "truncate", "rewrite", "remove"}

// String returns the operation's name.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown op"
}

// Write is one change that a batch makes.
type Write struct {
	Op      Op
	Space   string
	Key     []byte
	Value   []byte        // OpPut, OpRewrite
	Headers Headers       // OpPut, OpDelete, OpPurge, OpRewrite
	Count   uint32        // OpPut: items carried; 0 means 1
	TTL     time.Duration // OpPut: the record expires this long after its commit; 0 means never
	Version Version       // OpTruncate, OpRewrite, OpRemove
}

// Test is the kind of a [Condition]. The numbers are sent over the wire: add new ones only at the
// end.
type Test uint8

// The tests.
const (
	// TestVersion holds if the condition's version is the newest version that the key was ever
	// given, by a value or a tombstone, even if that record was truncated since.
	TestVersion Test = iota
	// TestAbsent holds if the key has no live value: it was never written, was deleted, purged or
	// truncated, has expired, or its space does not exist.
	TestAbsent
	// TestExists holds if the key has a live value.
	TestExists
	// TestNotAfter holds if the newest record that was ever written to the key, a value or a
	// tombstone, has at most the condition's position. Records that were removed since (forgotten,
	// purged, truncated, removed, expired) count. For a key that was never written, and in a space
	// that does not exist, it holds for every position. A space that was dropped and created again
	// has no records from before.
	//
	// The test never holds where it should fail, but it may fail where it could hold:
	//
	//   - For a key whose newest record was removed, an engine may keep a position later than that
	//     record's.
	//   - For all keys without any record left in a space with bounded history (see
	//     [Policy.TombstoneAge]), an engine keeps one position, which is at least that of the
	//     newest of the removed records. It applies to every key of the space that has no record.
	//
	// Both positions are at most [Reader.Head], and they grow only when records are removed and
	// when a log is opened. So after a Conflict, read again and use the new head: the commit then
	// succeeds unless the key was written meanwhile.
	TestNotAfter
)

var testNames = [...]string{"version", "absent", "exists", "not after"}

// String returns "version", "absent", "exists" or "not after".
func (t Test) String() string {
	if int(t) < len(testNames) {
		return testNames[t]
	}
	return "unknown test"
}

// Condition must hold at the batch's place in the order, or Commit fails with Conflict and writes
// nothing (law 4). Conditions are tested against the state before the batch: the writes of the
// batch itself do not count.
type Condition struct {
	Space    string
	Key      []byte
	Test     Test
	Version  Version  // TestVersion
	Position Position // TestNotAfter
}

func (c Condition) want() string {
	switch c.Test {
	case TestVersion:
		return fmt.Sprintf("version %d", c.Version)
	case TestAbsent:
		return "absent"
	case TestExists:
		return "exists"
	case TestNotAfter:
		return fmt.Sprintf("nothing after position %d", c.Position)
	}
	return "unknown test"
}

// Durability is the guarantee that a batch has when Commit returns. The zero value selects the
// log's default. It is a single number so that it can be sent over a wire: positive values are an
// interval in nanoseconds.
type Durability int64

// The durabilities, besides [Interval].
const (
	DefaultDurability Durability = 0  // the log's own setting
	Fsync             Durability = -1 // on stable storage: survives a power cut
	OS                Durability = -2 // with the operating system: survives a killed process
)

// Interval returns a durability that acknowledges like [OS] and brings the batch to stable storage
// at most d later: a power cut loses at most the last d. A d below 1 ms counts as 1 ms.
func Interval(d time.Duration) Durability { return Durability(max(d, time.Millisecond)) }

// Period returns the interval and true if d was made by [Interval].
func (d Durability) Period() (time.Duration, bool) { return time.Duration(d), d > 0 }

// String returns "default", "fsync", "os" or, for instance, "interval=100ms". [ParseDurability] is
// the inverse.
func (d Durability) String() string {
	switch d {
	case DefaultDurability:
		return "default"
	case Fsync:
		return "fsync"
	case OS:
		return "os"
	}
	return "interval=" + time.Duration(d).String()
}

// ParseDurability is the inverse of [Durability.String]. The empty string is [DefaultDurability];
// any other text is Invalid.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "", "default":
		return DefaultDurability, nil
	case "fsync":
		return Fsync, nil
	case "os":
		return OS, nil
	}
	if v, ok := strings.CutPrefix(s, "interval="); ok {
		if p, err := time.ParseDuration(v); err == nil && p >= time.Millisecond {
			return Interval(p), nil
		}
	}
	return 0, Refusef(KindInvalid, "durability", "%q is not fsync, os or interval=D with a duration D of at least 1ms", s)
}

// Batch collects writes and conditions on any keys of any spaces; [Log.Commit] applies all of them
// or none. Writes apply in the order in which they were added.
//
// A batch keeps the slices it is given and copies nothing: do not change them until Commit has
// returned. A batch is not safe for concurrent use. After Commit, successful or not, it may be
// committed again, or emptied with Reset and reused.
type Batch struct {
	// ID makes the batch idempotent (law 6): if a batch with the same ID was committed before,
	// Commit returns the receipt of that commit and writes nothing. It has at most [MaxBatchID]
	// bytes; empty means none. Each engine documents how long it keeps IDs.
	ID string
	// Durability replaces the log's default.
	Durability Durability
	// Time, unless zero, is the commit time of the batch in place of the engine's clock, for copies
	// of other logs. Times never decrease with position: a time before that of the newest record is
	// replaced by that record's time, and a time in the future by the present time of the engine's
	// clock.
	Time time.Time

	writes     []Write
	conditions []Condition
	ensures    []Ensure
	explainers []Explainer
	err        error
}

// Explainer adds details to conflicts on the keys of some spaces. A view adds itself to the batches
// that it writes into, so that the error of a conflict names the object of the view, such as a
// stream.
type Explainer interface {
	// ExplainConflict returns an error that describes conflict, the error of b's Commit, in the
	// terms of the view and wraps it. It returns nil if conflict is about keys of another view. It
	// may read from the log until ctx ends.
	ExplainConflict(ctx context.Context, b *Batch, conflict *Error) error
}

// Ensure names a space that a batch creates with the given policy unless it exists.
type Ensure struct {
	Space  string
	Policy Policy
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return new(Batch) }

// Add appends a write of any kind.
func (b *Batch) Add(w Write) {
	if b.writes == nil {
		b.writes = make([]Write, 0, few)
	}
	b.writes = append(b.writes, w)
}

// few is the capacity of each list of a batch when its first element is added. A view seldom writes
// only one record or condition, and a list that grows from capacity 1 is allocated again for the
// second, the third and the fifth element.
const few = 4

// Put appends the write of value to key.
func (b *Batch) Put(space string, key, value []byte) {
	b.Add(Write{Op: OpPut, Space: space, Key: key, Value: value})
}

// Delete appends a tombstone for key; see [OpDelete].
func (b *Batch) Delete(space string, key []byte) {
	b.Add(Write{Op: OpDelete, Space: space, Key: key})
}

// Truncate removes the records of key below version before; see [OpTruncate].
func (b *Batch) Truncate(space string, key []byte, before Version) {
	b.Add(Write{Op: OpTruncate, Space: space, Key: key, Version: before})
}

// Rewrite replaces the value of the record of key that ends at version v; see [OpRewrite].
func (b *Batch) Rewrite(space string, key []byte, v Version, value []byte, headers Headers) {
	b.Add(Write{Op: OpRewrite, Space: space, Key: key, Version: v, Value: value, Headers: headers})
}

// IfVersion adds the condition that the newest record of key has version v; see [TestVersion].
func (b *Batch) IfVersion(space string, key []byte, v Version) {
	b.If(Condition{Space: space, Key: key, Test: TestVersion, Version: v})
}

// IfAbsent adds the condition that key has no live value; see [TestAbsent].
func (b *Batch) IfAbsent(space string, key []byte) {
	b.If(Condition{Space: space, Key: key, Test: TestAbsent})
}

// IfExists adds the condition that key has a live value; see [TestExists].
func (b *Batch) IfExists(space string, key []byte) {
	b.If(Condition{Space: space, Key: key, Test: TestExists})
}

// IfNotAfter adds the condition that nothing was written to key after position p, so that a value,
// or its absence, read at p is still current; see [TestNotAfter].
func (b *Batch) IfNotAfter(space string, key []byte, p Position) {
	b.If(Condition{Space: space, Key: key, Test: TestNotAfter, Position: p})
}

// If adds a condition.
func (b *Batch) If(c Condition) {
	if b.conditions == nil {
		b.conditions = make([]Condition, 0, 2*few)
	}
	b.conditions = append(b.conditions, c)
}

// Ensure creates space with policy p as part of the batch, unless it exists; an
// existing space keeps its policy. Views call it before they write, so that
// writing creates a space and reading never does.
func (b *Batch) Ensure(space string, p Policy) {
	for i := range b.ensures {
		if b.ensures[i].Space == space {
			return
		}
	}
	if b.ensures == nil {
		b.ensures = make([]Ensure, 0, few)
	}
	b.ensures = append(b.ensures, Ensure{space, p})
}

// ExplainWith adds x to the explainers of the batch's conflicts; see [Explainer]. Adding the same
// one again does nothing. Reset removes it.
func (b *Batch) ExplainWith(x Explainer) {
	for _, known := range b.explainers {
		if known == x {
			return
		}
	}
	if b.explainers == nil {
		b.explainers = make([]Explainer, 0, few)
	}
	b.explainers = append(b.explainers, x)
}

// Explained returns err, the error of a Commit of b, in the form for the caller. A Conflict is
// replaced by the answer of the first [Explainer] that explains it; every other error is returned
// as it is. Engines call Explained at the end of Commit. It does not allocate if err is nil.
func (b *Batch) Explained(ctx context.Context, err error) error {
	if err == nil || len(b.explainers) == 0 {
		return err
	}
	conflict, ok := err.(*Error)
	if !ok || conflict.Kind != KindConflict {
		return err
	}
	for _, x := range b.explainers {
		if said := x.ExplainConflict(ctx, b, conflict); said != nil && errors.Is(said, ErrConflict) {
			return said
		}
	}
	return err
}

// Fail makes Commit return err instead of writing. A view calls it for instance when it cannot
// encode a value. Only the first error is kept.
func (b *Batch) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Err returns the first error given to Fail, or nil.
func (b *Batch) Err() error { return b.err }

// Len returns the number of writes.
func (b *Batch) Len() int { return len(b.writes) }

// Writes returns the writes in order, for engines. The slice belongs to the batch.
func (b *Batch) Writes() []Write { return b.writes }

// Conditions returns the conditions, for engines. The slice belongs to the batch.
func (b *Batch) Conditions() []Condition { return b.conditions }

// Ensures returns the spaces to create, for engines. The slice belongs to the batch.
func (b *Batch) Ensures() []Ensure { return b.ensures }

// Reset empties the batch and keeps its allocated memory.
func (b *Batch) Reset() {
	clear(b.writes)
	clear(b.conditions)
	clear(b.ensures)
	clear(b.explainers)
	*b = Batch{writes: b.writes[:0], conditions: b.conditions[:0], ensures: b.ensures[:0], explainers: b.explainers[:0]}
}

// Limits bounds the size of a batch.
type Limits struct {
	MaxValue       int // bytes in one value; 0 means [DefaultMaxValue]
	MaxBatchBytes  int // bytes in a whole batch; 0 means [DefaultMaxBatchBytes]
	MaxBatchWrites int // writes, and also conditions; 0 means [DefaultMaxBatchWrites]
}

// maxTime is the last Unix second whose time fits in an int64 of nanoseconds.
const maxTime = math.MaxInt64/int64(time.Second) - 1

// WithDefaults returns l with each zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	if l.MaxValue == 0 {
		l.MaxValue = DefaultMaxValue
	}
	if l.MaxBatchBytes == 0 {
		l.MaxBatchBytes = DefaultMaxBatchBytes
	}
	if l.MaxBatchWrites == 0 {
		l.MaxBatchWrites = DefaultMaxBatchWrites
	}
	return l
}

// Validate checks everything about b that can be checked without a log: the error given to Fail,
// names, sizes and numbers. Engines call it first in Commit.
func (b *Batch) Validate(l Limits) error {
	if b.err != nil {
		return b.err
	}
	if len(b.ID) > MaxBatchID {
		return Refusef(KindInvalid, "commit", "the batch ID has %d bytes: the limit is %d", len(b.ID), MaxBatchID)
	}
	if s := b.Time.Unix(); !b.Time.IsZero() && (s <= 0 || s > maxTime) {
		return Refusef(KindInvalid, "commit", "the batch's time is %s: want one from 1970 to 2262", b.Time.Format(time.RFC3339))
	}
	if b.Durability < OS {
		return Refusef(KindInvalid, "commit", "durability %d is not one that this version knows", int64(b.Durability))
	}
	if n := max(len(b.writes), len(b.conditions), len(b.ensures)); n > l.MaxBatchWrites {
		return Refusef(KindInvalid, "commit", "the batch has %d writes, conditions or spaces: the limit is %d; split it", n, l.MaxBatchWrites)
	}
	for i := range b.ensures {
		if err := ValidateSpaceName(b.ensures[i].Space); err != nil {
			return err
		}
		if err := b.ensures[i].Policy.Validate(); err != nil {
			return err
		}
	}
	for i := range b.conditions {
		c := &b.conditions[i]
		if c.Test > TestNotAfter {
			return Refusef(KindInvalid, "commit", "condition %d has the unknown test %d", i, c.Test)
		}
		if c.Test == TestVersion && c.Version == 0 {
			return Refusef(KindInvalid, "commit", "condition %d wants version 0: versions begin at 1; use IfAbsent", i)
		}
		if err := validateAt(c.Space, c.Key, i, "condition"); err != nil {
			return err
		}
	}
	return b.validateWrites(l)
}

func (b *Batch) validateWrites(l Limits) error {
	size := 0
	for i := range b.writes {
		w := &b.writes[i]
		if err := validateAt(w.Space, w.Key, i, "write"); err != nil {
			return err
		}
		if err := w.validate(i, l); err != nil {
			return err
		}
		size += w.Size()
	}
	if size > l.MaxBatchBytes {
		return Refusef(KindInvalid, "commit", "the batch holds %d bytes: the limit is %d; split it", size, l.MaxBatchBytes)
	}
	return nil
}

func validateAt(space string, key []byte, i int, what string) error {
	if space == "" || len(space) > MaxSpaceName {
		return Refusef(KindInvalid, "commit", "%s %d: %w", what, i, ValidateSpaceName(space))
	}
	if len(key) == 0 || len(key) > MaxKey {
		return Refusef(KindInvalid, "commit", "%s %d: %w", what, i, ValidateKey(key))
	}
	return nil
}

func (w *Write) validate(i int, l Limits) error {
	switch {
	case w.Op > OpRemove:
		return Refusef(KindInvalid, "commit", "write %d has the unknown operation %d", i, w.Op)
	case len(w.Value) > l.MaxValue:
		return Refusef(KindInvalid, "commit", "write %d to %s: the value of key %.40q has %d bytes: the limit is %d", i, w.Space, w.Key, len(w.Value), l.MaxValue)
	case w.TTL < 0:
		return Refusef(KindInvalid, "commit", "write %d to %s: the time to live of key %.40q is %v: want 0 (never) or more", i, w.Space, w.Key, w.TTL)
	case w.Op >= OpTruncate && w.Version == 0:
		return Refusef(KindInvalid, "commit", "write %d to %s: %s needs a version of at least 1", i, w.Space, w.Op)
	case len(w.Headers) > MaxHeaders:
		return Refusef(KindInvalid, "commit", "write %d to %s: %d headers: the limit is %d", i, w.Space, len(w.Headers), MaxHeaders)
	}
	n := 0
	for j := range w.Headers {
		if len(w.Headers[j].Name) > MaxHeaderName {
			return Refusef(KindInvalid, "commit", "write %d to %s: the header name %.40q... has %d bytes: the limit is %d", i, w.Space, w.Headers[j].Name, len(w.Headers[j].Name), MaxHeaderName)
		}
		n += len(w.Headers[j].Name) + len(w.Headers[j].Value)
	}
	if n > MaxHeaderBytes {
		return Refusef(KindInvalid, "commit", "write %d to %s: the headers hold %d bytes: the limit is %d", i, w.Space, n, MaxHeaderBytes)
	}
	return nil
}

// Size returns the number of bytes of key, value and headers, which counts towards
// [Limits.MaxBatchBytes] and [SpaceInfo.Bytes].
func (w *Write) Size() int {
	n := len(w.Key) + len(w.Value)
	for i := range w.Headers {
		n += len(w.Headers[i].Name) + len(w.Headers[i].Value)
	}
	return n
}

// Receipt is the result of a committed batch.
type Receipt struct {
	First, Last Position  // positions of its first and last record; all positions between are of the batch too. Both are 0 if it wrote no record
	Time        time.Time // commit time
	// Versions has one entry for each write of the batch: the version of the record that it wrote,
	// or 0 if it wrote none. The slice belongs to the caller.
	Versions []Version
	// Duplicate is true if a batch with the same ID was committed before. The receipt is then that
	// of the earlier commit.
	Duplicate bool
}

package natskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// WriteOption changes one write. See [TTL], [Metadata], [IfAbsent], [IfRevision]
// and [Atomic].
type WriteOption struct {
	kind     optionKind
	ttl      time.Duration
	revision kv.Revision
	metadata map[string]string
}

type optionKind uint8

const (
	optTTL optionKind = 1 << iota
	optMetadata
	optAbsent
	optRevision
	optAtomic

	optConditions = optAbsent | optRevision
)

// TTL makes the value expire d after its write, rounded up to seconds, instead of
// the handle's [TableOptions.TTL]; 0 means never. A bucket that does not allow it, as new
// ones do not, is altered to; a bucket that keeps more than one revision refuses it, because
// the revision before would come back.
func TTL(d time.Duration) WriteOption { return WriteOption{kind: optTTL, ttl: d} }

// Metadata travels with the value and comes back as the entry's Metadata: in the
// headers of the message, or in the envelope. Names of headers are tokens, and those
// that begin with Nats- or KV- are reserved.
func Metadata(m map[string]string) WriteOption {
	return WriteOption{kind: optMetadata, metadata: m}
}

// IfAbsent demands that the key has no value.
func IfAbsent() WriteOption { return WriteOption{kind: optAbsent} }

// IfRevision demands that the newest message of the key has revision r.
// IfRevision(0) is IfAbsent.
func IfRevision(r kv.Revision) WriteOption {
	if r == 0 {
		return IfAbsent()
	}
	return WriteOption{kind: optRevision, revision: r}
}

// settings are the options of one write, put together.
type settings struct {
	condition optionKind
	revision  kv.Revision
	ttl       time.Duration
	metadata  map[string]string
	atomic    bool
}

// withOptions puts options together that the operation takes.
func withOptions(op string, allowed optionKind, ttl time.Duration, opts []WriteOption) (settings, error) {
	s := settings{ttl: ttl}
	for _, o := range opts {
		switch {
		case o.kind&allowed == 0:
			return s, fmt.Errorf("%s takes no such option: see its documentation", op)
		case o.kind&optConditions != 0 && s.condition != 0:
			return s, fmt.Errorf("%s takes one condition, not two", op)
		case o.kind == optTTL && o.ttl < 0:
			return s, fmt.Errorf("TTL is %v: want 0 (never) or more", o.ttl)
		}
		switch o.kind {
		case optTTL:
			s.ttl = o.ttl
		case optMetadata:
			s.metadata = o.metadata
		case optAtomic:
			s.atomic = true
		default:
			s.condition, s.revision = o.kind, o.revision
		}
	}
	return s, nil
}

func checkMetadata(name, value string) error {
	if name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(value, "\r\n") {
		return fmt.Errorf("the metadata %.40q cannot be a header: want a name without blanks and colons, and a value of one line", name)
	}
	if isReserved(name) {
		return fmt.Errorf("the metadata name %q is reserved for NATS", name)
	}
	return nil
}

func isReserved(name string) bool {
	for _, prefix := range [...]string{"nats-", "kv-", "mainstem-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return name == "Status" || name == "Description"
}

// headerMetadata returns the headers that are not those of NATS.
func headerMetadata(h nats.Header) map[string]string {
	var m map[string]string
	for name, values := range h {
		if isReserved(name) || len(values) == 0 {
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[name] = values[0]
	}
	return m
}

// Put writes value to key and returns its revision: the sequence of its message,
// which grows over the whole bucket. With a condition that does not hold it is a Conflict
// that carries the revision found.
func (b *Bucket[T]) Put(ctx context.Context, key string, value T, opts ...WriteOption) (kv.Revision, error) {
	const allowed = optTTL | optMetadata | optConditions
	s, err := withOptions("put", allowed, b.o.TTL, opts)
	if err != nil {
		return 0, b.refuse("put", key, err)
	}
	return b.put(ctx, "put", key, value, s)
}

// Create writes value to key if the key has no value, and returns its revision.
// Otherwise it is Exists; the error's Got is the revision that is there.
func (b *Bucket[T]) Create(ctx context.Context, key string, value T, opts ...WriteOption) (kv.Revision, error) {
	s, err := withOptions("create", optTTL|optMetadata, b.o.TTL, opts)
	if err != nil {
		return 0, b.refuse("create", key, err)
	}
	s.condition = optAbsent
	rev, err := b.put(ctx, "create", key, value, s)
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindConflict {
		c := *e
		c.Kind, c.Err = mainstem.KindExists, fmt.Errorf("the key has a value at revision %d", e.Got)
		return 0, &c
	}
	return rev, err
}

// Update writes value to key if the newest message of the key has revision: a
// compare-and-set. Otherwise it is a Conflict that carries the revision found.
// Revision 0 stands for a key without a value.
func (b *Bucket[T]) Update(ctx context.Context, key string, value T, revision kv.Revision, opts ...WriteOption) (kv.Revision, error) {
	s, err := withOptions("update", optTTL|optMetadata, b.o.TTL, opts)
	if err != nil {
		return 0, b.refuse("update", key, err)
	}
	o := IfRevision(revision)
	s.condition, s.revision = o.kind, o.revision
	return b.put(ctx, "update", key, value, s)
}

// Delete deletes key: it writes a marker, also if the key has no value. It takes
// a condition. A bucket that does not exist is not created.
func (b *Bucket[T]) Delete(ctx context.Context, key string, opts ...WriteOption) error {
	return b.end(ctx, "delete", key, nats.Header{headerOperation: {"DEL"}}, kv.OpDelete, opts)
}

// Purge deletes key together with its older revisions. It is like Delete otherwise.
func (b *Bucket[T]) Purge(ctx context.Context, key string, opts ...WriteOption) error {
	h := nats.Header{headerOperation: {"PURGE"}, headerRollup: {"sub"}}
	return b.end(ctx, "purge", key, h, kv.OpPurge, opts)
}

func (b *Bucket[T]) refuse(op, key string, err error) error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.stream.bucket, Key: []byte(key), Outcome: mainstem.NotWritten, Err: err}
}

// put writes a value, under the condition of s.
func (b *Bucket[T]) put(ctx context.Context, op, key string, value T, s settings) (kv.Revision, error) {
	f, err := b.ensure(ctx)
	if err != nil {
		return 0, b.stream.failWrite(op, key, false, err)
	}
	w := &written{}
	if err := b.prepare(ctx, f, op, key, value, s, w); err != nil {
		return 0, err
	}
	old := b.reference(ctx, w.token)
	rev, err := b.commit(ctx, op, key, w, s)
	b.removeObject(ctx, w, old, err)
	return rev, err
}

// commit publishes a value, again where only a marker stood against it.
func (b *Bucket[T]) commit(ctx context.Context, op, key string, w *written, s settings) (kv.Revision, error) {
	for {
		seq, sent, err := b.stream.write(ctx, &w.request)
		if errors.Is(err, errNoBucket) && !sent { // dropped since
			if w.facts, err = b.ensure(ctx); err != nil {
				return 0, b.stream.failWrite(op, key, false, err)
			}
			seq, sent, err = b.stream.write(ctx, &w.request)
		}
		if isCode(err, codeTTLDisabled) { // made anew since, by another client
			if _, err := b.stream.allow(ctx, "allow_msg_ttl"); err != nil {
				return 0, b.stream.failWrite(op, key, false, err)
			}
			continue
		}
		if isWrongSequence(err) {
			if err = b.stream.contend(ctx, op, key, w, s); err == nil {
				continue
			}
			return 0, err
		}
		if err != nil {
			return 0, b.stream.failWrite(op, key, sent, err)
		}
		b.stream.wrote(w, seq, kv.OpUpdate)
		return kv.Revision(seq), nil
	}
}

// written is a message on its way, and where it goes.
type written struct {
	request
	full, token string
	facts       *facts // of the bucket, before the message is sent
}

// prepare makes w the message of a value.
func (b *Bucket[T]) prepare(ctx context.Context, f *facts, op, key string, value T, s settings, w *written) error {
	full, token, err := b.locate(op, key)
	if err != nil {
		return notWritten(err)
	}
	body, h, err := b.encode(key, value, s.metadata)
	if err != nil {
		return b.refuse(op, key, err)
	}
	if s.ttl > 0 {
		if f.history != 1 {
			return b.refuse(op, key, fmt.Errorf("a TTL in a bucket that keeps %d revisions: when the value expires the one before it would come back", f.history))
		}
		if err := b.allowTTL(ctx, f); err != nil {
			return b.stream.failWrite(op, key, false, err)
		}
		h = with(h, headerTTL, strconv.FormatInt(int64((s.ttl+time.Second-1)/time.Second), 10)+"s")
	}
	switch s.condition {
	case optAbsent:
		h = with(h, headerExpected, "0")
	case optRevision:
		h = with(h, headerExpected, strconv.FormatUint(uint64(s.revision), 10))
	}
	*w = written{request: request{subject: b.stream.publish + token, header: h, data: body}, full: full, token: token, facts: f}
	return b.offload(ctx, f, op, key, w)
}

// allowTTL has the bucket allow times to live, if it does not yet. f is what was known of it.
func (b *Bucket[T]) allowTTL(ctx context.Context, f *facts) error {
	if f.ttl {
		return nil
	}
	if f = b.stream.known.Load(); f != nil && f.ttl { // since
		return nil
	}
	_, err := b.stream.allow(ctx, "allow_msg_ttl")
	return err
}

func with(h nats.Header, name, value string) nats.Header {
	if h == nil {
		h = make(nats.Header, 2)
	}
	h[name] = []string{value}
	return h
}

func notWritten(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Outcome == mainstem.NoOutcome {
		return e.WithOutcome(mainstem.NotWritten)
	}
	return err
}

// write publishes a message and returns its sequence.
func (s *stream) write(ctx context.Context, r *request) (seq uint64, sent bool, err error) {
	if seq, sent, err = s.writeOnce(ctx, r); !isNoLeader(err) {
		return seq, sent, err
	}
	return s.writePatiently(ctx, r)
}

func (s *stream) writeOnce(ctx context.Context, r *request) (seq uint64, sent bool, err error) {
	m, sent, err := s.store.calls.call(ctx, r)
	if err != nil {
		return 0, sent, err
	}
	seq, err = parseAck(m.Data)
	return seq, true, err
}

// writePatiently is writeOnce for a bucket that had no leader when it was asked.
func (s *stream) writePatiently(ctx context.Context, r *request) (seq uint64, sent bool, err error) {
	err = s.retry(ctx, func() error {
		seq, sent, err = s.writeOnce(ctx, r)
		sent = sent && !isNoLeader(err)
		return err
	})
	return seq, sent, err
}

// wrote tells the index of a write.
func (s *stream) wrote(w *written, seq uint64, op kv.Op) {
	if !s.index.running() {
		return
	}
	m := message{seq: seq, time: time.Unix(0, s.store.clock.now()), header: w.header, data: w.data}
	if s.store.cacheBytes > 0 && op == kv.OpUpdate {
		m.data = append(make([]byte, 0, len(w.data)), w.data...)
	}
	s.index.note(w.facts, w.full, &m, op, false)
}

// Codes of a condition that does not hold: the second is that of clusters.
const codeWrongSequenceConstant = 10164

func isWrongSequence(err error) bool {
	return isCode(err, codeWrongSequence) || isCode(err, codeWrongSequenceConstant)
}

// contend decides about a write whose condition did not hold: nil, with the
// condition changed, if the key has a deletion marker and was to be absent. It tells the
// index what stood against the write: a read that follows is not older.
func (s *stream) contend(ctx context.Context, op, key string, w *written, o settings) error {
	before, _ := s.index.newest(w.full)
	m, err := s.fetchLeader(ctx, w.token)
	switch {
	case err == nil:
		s.index.note(w.facts, w.full, &m, operation(m.header), true)
	case errors.Is(err, errNoMessage):
		s.index.gone(w.facts, w.full, before)
	default:
		return s.failWrite(op, key, false, err)
	}
	live := err == nil && operation(m.header) == kv.OpUpdate
	expected := strconv.FormatUint(m.seq, 10)
	if o.condition == optAbsent && !live {
		w.header[headerExpected] = []string{expected}
		return nil
	}
	if o.condition == optRevision && m.seq == uint64(o.revision) {
		return nil // what stood between has not become a message
	}
	want := mainstem.Condition{Space: s.bucket, Key: []byte(key), Test: mainstem.TestAbsent}
	if o.condition == optRevision {
		want.Test, want.Version = mainstem.TestVersion, o.revision
	}
	return &mainstem.Error{Kind: mainstem.KindConflict, Op: op, Space: s.bucket, Key: []byte(key), Outcome: mainstem.NotWritten,
		Want: want, Got: mainstem.Version(m.seq), GotLive: live}
}

// end writes a marker.
func (b *Bucket[T]) end(ctx context.Context, op, key string, h nats.Header, did kv.Op, opts []WriteOption) error {
	s, err := withOptions(op, optRevision, 0, opts)
	if err != nil {
		return b.refuse(op, key, err)
	}
	full, token, err := b.locate(op, key)
	if err != nil {
		return notWritten(err)
	}
	f, err := b.stream.find(ctx)
	if err != nil {
		if errors.Is(err, errNoBucket) && s.condition == 0 {
			return nil
		}
		return b.stream.failWrite(op, key, false, err)
	}
	if s.condition == optRevision {
		h[headerExpected] = []string{strconv.FormatUint(uint64(s.revision), 10)}
	}
	w := &written{request: request{subject: b.stream.publish + token, header: h}, full: full, token: token, facts: f}
	old := b.reference(ctx, token)
	seq, sent, err := b.stream.write(ctx, &w.request)
	switch {
	case isWrongSequence(err):
		if err = b.stream.contend(ctx, op, key, w, s); err == nil {
			return b.end(ctx, op, key, h, did, opts)
		}
		return err
	case errors.Is(err, errNoBucket) && s.condition == 0:
		return nil
	case err != nil:
		return b.stream.failWrite(op, key, sent, err)
	}
	b.stream.wrote(w, seq, did)
	b.removeObject(ctx, w, old, nil)
	return nil
}

package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// MaxHistory is the largest [TableOptions.History].
const MaxHistory = 64

// Large says what becomes of a value that is too large for a message.
type Large uint8

// The choices for large values.
const (
	// LargeRefuse makes writing it Invalid.
	LargeRefuse Large = iota
	// LargeObjects keeps it in the object store OBJ_<bucket>, and a reference to it
	// in the bucket. Other clients see the reference, a JSON text; so layouts with
	// envelopes, whose readers would take it for damage, do not have it.
	LargeObjects
)

var largeNames = [...]string{"refuse", "objects"}

// String returns "refuse" or "objects".
func (l Large) String() string {
	if int(l) < len(largeNames) {
		return largeNames[l]
	}
	return "unknown choice for large values"
}

// TableOptions configures a handle on a table. Nil and zero fields mean the
// defaults. History to MarkerTTL belong to the bucket: they take hold when the
// first write creates it. A bucket that exists keeps its own.
type TableOptions struct {
	// Codec encodes the values. Default: codec.Raw if T is []byte or string,
	// else codec.JSON; a Protobuf message needs one, see codec.Default.
	Codec codec.Codec
	// TTL is the time to live of values written through this handle without a [TTL]
	// option, rounded up to seconds. Default 0: without end, or the bucket's MaxAge.
	TTL time.Duration
	// Large says what becomes of values above the server's max_payload. Default LargeRefuse.
	Large Large
	// Bare leaves the table out of the keys where the bucket is named for it: so go-orb does
	// where a table comes from its configuration instead of the call. In a bucket with many
	// tables it has no effect.
	Bare bool

	History     int           // revisions kept of a key; default 1, at most MaxHistory
	MaxAge      time.Duration // everything older is removed, and watches are not told; default 0: never
	MaxBytes    int64         // writes that would make the bucket larger fail; default 0: no limit
	Replicas    int           // copies in a cluster; default 1
	Placement   *jetstream.Placement
	Memory      bool   // keep the bucket in the server's memory; default: in files
	Compress    bool   // the server compresses its files
	Description string // of the stream
	// MarkerTTL makes the server leave a marker where a value expires, for so long, and
	// watches report OpExpire. Clients older than nats.go 1.42 take the marker for an
	// empty value: for the layout NATS, where all clients are newer. Default 0: no markers.
	MarkerTTL time.Duration
}

func (o *TableOptions) validate(l Layout) error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(o.TTL < 0, "TTL is %v: want 0 (never expires) or more", o.TTL)
	add(o.Large > LargeObjects, "Large is %d: want LargeRefuse or LargeObjects", o.Large)
	add(o.Large == LargeObjects && l.form != formRaw, "Large is LargeObjects: the layout %s has envelopes, whose other readers could not read a reference", l)
	add(o.History < 0 || o.History > MaxHistory, "History is %d: want 0 (the default, 1) to %d", o.History, MaxHistory)
	add(o.Large == LargeObjects && o.History > 1, "Large is LargeObjects with a History of %d: objects have no older revisions", o.History)
	add(o.TTL > 0 && o.History > 1, "TTL with a History of %d: when a value expires the one before it would come back", o.History)
	add(o.MaxAge < 0, "MaxAge is %v: want 0 (never) or more", o.MaxAge)
	add(o.MaxBytes < 0, "MaxBytes is %d: want 0 (no limit) or more", o.MaxBytes)
	add(o.Replicas < 0, "Replicas is %d: want 0 (the default, 1) or more", o.Replicas)
	add(o.MarkerTTL != 0 && o.MarkerTTL < time.Second, "MarkerTTL is %v: want 0 (none) or at least 1s", o.MarkerTTL)
	add(o.MarkerTTL != 0 && l.kind != kindNATS, "MarkerTTL in the layout %s: the clients it is shared with would take a marker for an empty value", l)
	if len(errs) > 0 {
		return mainstem.Errorf(mainstem.KindInvalid, "natskv options", "%w", errors.Join(errs...))
	}
	return nil
}

// Bucket is a typed handle on one table. It holds no resources and needs no
// Close; it works as long as its store is open. All methods may be called from
// many goroutines.
type Bucket[T any] struct {
	store           *Store
	stream          *stream
	database, table string
	prefix          string // of the table's keys
	o               TableOptions
	codec           codec.Codec
	kind            valueKind
}

// valueKind says how values become bytes.
type valueKind uint8

const (
	kindCodec    valueKind = iota // by the codec
	kindBytes                     // they are bytes
	kindEnvelope                  // they are envelopes
)

// Open returns a handle on the table "database/table" of the store. "table" alone is
// short for "default/table", but in the layout NATS the bucket of that name;
// "database/" is the empty table, which go-orb and go-micro have. It reads and
// creates nothing: the first write creates the bucket.
func Open[T any](s *Store, name string, o *TableOptions) (*Bucket[T], error) {
	database, table, ok := strings.Cut(name, "/")
	if !ok {
		database, table = "", name
	}
	return OpenTable[T](s, database, table, o)
}

// OpenTable is [Open] with the names given apart. The empty database is the
// default one.
func OpenTable[T any](s *Store, database, table string, o *TableOptions) (*Bucket[T], error) {
	if o == nil {
		o = &TableOptions{}
	}
	if err := o.validate(s.layout); err != nil {
		return nil, err
	}
	if database == "" && s.layout.kind != kindNATS {
		database = kv.DefaultDatabase
	}
	p, err := s.layout.place(database, table, o.Bare)
	if err != nil {
		return nil, err
	}
	b := &Bucket[T]{store: s, stream: s.stream(p.bucket), database: database, table: table, prefix: p.prefix, o: *o, codec: o.Codec}
	var zero T
	switch any(&zero).(type) {
	case *Envelope:
		b.kind = kindEnvelope
	default:
		if b.codec == nil {
			if b.codec, err = codec.Default[T](); err != nil {
				return nil, mainstem.Errorf(mainstem.KindInvalid, "natskv open", "%s/%s: %w", database, table, err)
			}
		}
		if b.codec == codec.Raw && isBytes[T]() {
			b.kind = kindBytes
		}
	}
	return b, nil
}

func isBytes[T any]() bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// Database returns the name of the database, "" in the layout NATS if none was given.
func (b *Bucket[T]) Database() string { return b.database }

// Table returns the name of the table within its database.
func (b *Bucket[T]) Table() string { return b.table }

// Ensure creates the bucket, as the first write would, unless it exists: so that it
// can be watched.
func (b *Bucket[T]) Ensure(ctx context.Context) error {
	if _, err := b.ensure(ctx); err != nil {
		return b.stream.failChange("create", err)
	}
	return nil
}

// ensure creates the bucket unless it exists.
func (b *Bucket[T]) ensure(ctx context.Context) (*facts, error) {
	database, table := b.owner()
	return b.stream.ensure(ctx, &b.o, database, table)
}

// BucketName returns the name of the JetStream bucket that holds the table.
func (b *Bucket[T]) BucketName() string { return b.stream.bucket }

// Subject returns the subject under which the value of key is stored, for clients
// that know NATS only.
func (b *Bucket[T]) Subject(key string) (string, error) {
	_, token, err := b.locate("subject", key)
	return b.stream.subject + token, err
}

// locate checks key and returns it with its table, and as it stands in subjects.
func (b *Bucket[T]) locate(op, key string) (full, token string, err error) {
	if err := b.checkKey(op, key); err != nil {
		return "", "", err
	}
	full = b.prefix + key
	if token, err = b.store.layout.token(full); err != nil {
		return "", "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.stream.bucket, Key: []byte(key), Err: err}
	}
	return full, token, nil
}

func (b *Bucket[T]) checkKey(op, key string) error {
	switch {
	case key == "":
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.stream.bucket, Err: errEmptyKey}
	case len(key) > mainstem.MaxKey:
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.stream.bucket,
			Err: fmt.Errorf("the key %.40q... has %d bytes: the limit is %d", key, len(key), mainstem.MaxKey)}
	}
	return nil
}

// encode returns the body and the headers of a value.
func (b *Bucket[T]) encode(key string, value T, metadata map[string]string) ([]byte, nats.Header, error) {
	var e Envelope
	switch b.kind {
	case kindEnvelope:
		e = any(value).(Envelope)
	case kindBytes:
		e.Data = bytesOf(value)
	default:
		data, err := b.codec.Append(nil, value)
		if err != nil {
			return nil, nil, err
		}
		e.Data = data
	}
	if b.store.layout.form == formRaw {
		return b.encodeRaw(&e, metadata)
	}
	e.Key = key
	if len(metadata) > 0 {
		var err error
		if e.Metadata, err = codec.JSON.Append(nil, metadata); err != nil {
			return nil, nil, err
		}
	}
	body, err := e.append(nil, b.store.layout.form)
	return body, nil, err
}

// encodeRaw puts the metadata into headers.
func (b *Bucket[T]) encodeRaw(e *Envelope, metadata map[string]string) ([]byte, nats.Header, error) {
	if metadata == nil {
		metadata = e.metadata()
	}
	if len(metadata) == 0 {
		return e.Data, nil, nil
	}
	h := make(nats.Header, len(metadata))
	for name, value := range metadata {
		if err := checkMetadata(name, value); err != nil {
			return nil, nil, err
		}
		h[name] = []string{value}
	}
	return e.Data, h, nil
}

// bytesOf returns value, a byte slice of some type, without copying: nil stays nil.
func bytesOf[T any](value T) []byte {
	if p, ok := any(&value).(*[]byte); ok {
		return *p
	}
	return reflect.ValueOf(value).Bytes()
}

// entry turns a live message into an entry. shared says that its bytes belong to
// the cache. On a value that cannot be decoded it returns the rest with the error.
func (b *Bucket[T]) entry(op, key string, m *message, shared bool) (kv.Entry[T], error) {
	e := kv.Entry[T]{
		Key: key, Revision: kv.Revision(m.seq), Position: mainstem.Position(m.seq),
		Op: operation(m.header), Modified: m.time, Expires: b.stream.expires(m),
	}
	if !e.Live() {
		return e, nil
	}
	env, metadata, err := b.open(key, m)
	if err == nil {
		e.Metadata = metadata
		e.Value, err = b.decode(&env, shared)
	}
	if err != nil {
		return e, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: op, Space: b.stream.bucket, Key: []byte(key),
			Err:  fmt.Errorf("revision %d: %w", m.seq, err),
			Hint: "it was written in another layout, codec or type than " + b.store.layout.String()}
	}
	return e, nil
}

// open takes a message apart.
func (b *Bucket[T]) open(key string, m *message) (Envelope, map[string]string, error) {
	if b.store.layout.form == formRaw {
		data := m.data
		if data == nil {
			data = []byte{}
		}
		e := Envelope{Key: key, Data: data}
		metadata := headerMetadata(m.header)
		if b.kind == kindEnvelope && metadata != nil {
			e.Metadata, _ = codec.JSON.Append(nil, metadata)
		}
		return e, metadata, nil
	}
	var e Envelope
	err := e.parse(m.data)
	return e, e.metadata(), err
}

// decode returns the value of an envelope. Only what a codec or reflection sees is
// put on the heap.
func (b *Bucket[T]) decode(e *Envelope, shared bool) (T, error) {
	if b.kind == kindCodec {
		var v T
		err := b.codec.Decode(e.Data, &v)
		return v, err
	}
	if b.kind == kindEnvelope {
		c := *e
		if shared {
			c.Data, c.Metadata = bytes.Clone(e.Data), bytes.Clone(e.Metadata)
		}
		return any(c).(T), nil
	}
	data := e.Data
	if shared && b.store.layout.form == formRaw { // envelopes are decoded into bytes of their own
		data = append([]byte{}, data...)
	}
	if v, ok := any(data).(T); ok {
		return v, nil
	}
	var v T // of a type that is named
	reflect.ValueOf(&v).Elem().SetBytes(data)
	return v, nil
}

// expires returns when the server removes m; zero: never.
func (s *stream) expires(m *message) time.Time {
	ttl := ttlOf(m.header)
	if f := s.known.Load(); f != nil && f.maxAge > 0 && (ttl == 0 || ttl > f.maxAge) {
		ttl = f.maxAge
	}
	if ttl <= 0 {
		return time.Time{}
	}
	return m.time.Add(ttl)
}

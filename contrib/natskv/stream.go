package natskv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// stream is one bucket of JetStream, shared by all tables in it.
type stream struct {
	store   *Store
	bucket  string
	name    string // of the stream: KV_<bucket>
	subject string // before a key where messages are stored: $KV.<bucket>.
	publish string // before a key where messages are published
	direct  string // before a key where the newest message is asked for

	known    atomic.Pointer[facts] // nil until the bucket was seen
	mirrored atomic.Bool           // mirrors answer direct gets, too
	mu       sync.Mutex            // one lookup or creation at a time
	index    *index
}

// facts are what operations need to know about a bucket that exists.
type facts struct {
	created  time.Time
	last     uint64 // sequence, when it was asked for
	history  int64
	maxAge   time.Duration
	replicas int
	direct   bool // direct gets are allowed
	ttl      bool // messages may have a time to live
	atomic   bool // batches may be atomic
	markers  bool // the server leaves markers where keys expire
	metadata map[string]string
}

const streamPrefix = "KV_"

func newStream(s *Store, bucket string) *stream {
	st := &stream{store: s, bucket: bucket, name: streamPrefix + bucket}
	st.subject = "$KV." + bucket + "."
	st.publish = st.subject
	if s.api != defaultAPI {
		st.publish = s.api + st.subject
	}
	st.direct = s.api + "DIRECT.GET." + st.name + "." + st.subject
	st.index = newIndex(st)
	return st
}

// streamInfo is the part of JetStream's description of a stream that is used here.
type streamInfo struct {
	Config  jetstream.StreamConfig `json:"config"`
	Created time.Time              `json:"created"`
	Now     time.Time              `json:"ts"` // the server's clock
	State   struct {
		LastSeq  uint64 `json:"last_seq"`
		Subjects uint64 `json:"num_subjects"`
		Messages uint64 `json:"messages"`
	} `json:"state"`
	// Alternates are the stream and its mirrors, if a cluster has any.
	Alternates []struct {
		Name string `json:"name"`
	} `json:"alternates"`
}

func (i *streamInfo) facts() *facts {
	c := &i.Config
	return &facts{
		created: i.Created, last: i.State.LastSeq, history: c.MaxMsgsPerSubject, maxAge: c.MaxAge, replicas: c.Replicas, direct: c.AllowDirect,
		ttl: c.AllowMsgTTL, atomic: c.AllowAtomicPublish, markers: c.SubjectDeleteMarkerTTL > 0, metadata: c.Metadata,
	}
}

// find returns the facts about the bucket; errNoBucket if it does not exist.
func (s *stream) find(ctx context.Context) (*facts, error) {
	if f := s.known.Load(); f != nil {
		return f, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.known.Load(); f != nil {
		return f, nil
	}
	return s.lookup(ctx)
}

// lookup asks the server about the bucket. The caller holds mu.
func (s *stream) lookup(ctx context.Context) (*facts, error) {
	info, err := s.info(ctx)
	if errors.Is(err, errNoBucket) {
		s.known.Store(nil)
		s.index.lost()
	}
	if err != nil {
		return nil, err
	}
	if info.Config.Mirror != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "find bucket", Space: s.bucket,
			Err: errors.New("the bucket is a mirror"), Hint: "open the bucket that it mirrors"}
	}
	if len(info.Alternates) > 1 {
		s.mirrored.Store(true)
	}
	f := info.facts()
	if old := s.known.Swap(f); old != nil && !old.created.Equal(f.created) {
		s.index.lost()
	}
	return f, nil
}

// info asks the server to describe the bucket.
func (s *stream) info(ctx context.Context) (*streamInfo, error) {
	var info streamInfo
	asked := time.Now()
	if _, err := s.store.ask(ctx, "STREAM.INFO."+s.name, nil, &info); err != nil {
		if isCode(err, codeStreamNotFound) {
			return nil, errNoBucket
		}
		return nil, err
	}
	s.store.clock.learn(asked, info.Now, time.Now())
	return &info, nil
}

// refresh forgets what is known and asks again.
func (s *stream) refresh(ctx context.Context) (*facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(ctx)
}

// ensure returns the facts about the bucket, and creates it if it does not exist.
func (s *stream) ensure(ctx context.Context, o *TableOptions, database, table string) (*facts, error) {
	if f := s.known.Load(); f != nil {
		return f, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.lookup(ctx)
	if !errors.Is(err, errNoBucket) {
		return f, err
	}
	info, err := s.create(ctx, s.config(o, database, table))
	if isCode(err, codeStreamExists) { // someone else's first write came between
		return s.lookup(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("create bucket: %w", err)
	}
	f = info.facts()
	s.known.Store(f)
	s.index.lost() // if it runs, it follows a bucket that is gone
	return f, nil
}

// create creates the bucket. A server that is still removing the files of one that
// was deleted just now is asked again.
func (s *stream) create(ctx context.Context, c *jetstream.StreamConfig) (*streamInfo, error) {
	for i := 1; ; i++ {
		var info streamInfo
		_, err := s.store.ask(ctx, "STREAM.CREATE."+s.name, c, &info)
		if !isCode(err, codeStoreNotCreated) && !isNoLeader(err) || i == attempts {
			return &info, err
		}
		if err := pause(ctx, s.store.done, attemptsPause); err != nil {
			return nil, err
		}
	}
}

// duplicateWindow is the window of duplicate detection that NATS gives buckets.
const duplicateWindow = 2 * time.Minute

// Names in the metadata of the streams that this package creates.
const (
	metaDatabase = "mainstem.database"
	metaTable    = "mainstem.table"
	metaLayout   = "mainstem.layout"
)

// config is that of a new bucket: what NATS clients give their buckets, with
// atomic batches allowed. Times to live by key are allowed only where one is known to be
// asked for, and otherwise when the first is: with them allowed, though none is given, a
// server looks for expired keys after every write.
func (s *stream) config(o *TableOptions, database, table string) *jetstream.StreamConfig {
	c := &jetstream.StreamConfig{
		Name: s.name, Description: o.Description, Subjects: []string{s.subject + ">"},
		MaxMsgsPerSubject: int64(max(o.History, 1)), MaxBytes: -1, MaxAge: o.MaxAge, MaxMsgSize: -1,
		Storage: jetstream.FileStorage, Replicas: max(o.Replicas, 1), Placement: o.Placement,
		AllowRollup: true, DenyDelete: true, AllowDirect: true, Duplicates: duplicateWindow,
		MaxMsgs: -1, MaxConsumers: -1, Discard: jetstream.DiscardNew,
		AllowMsgTTL: o.TTL > 0 || o.MarkerTTL > 0, AllowAtomicPublish: true, SubjectDeleteMarkerTTL: o.MarkerTTL,
		Metadata: map[string]string{metaDatabase: database, metaTable: table, metaLayout: s.store.layout.String()},
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	if o.MaxAge > 0 && o.MaxAge < c.Duplicates {
		c.Duplicates = o.MaxAge
	}
	if o.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	if o.Compress {
		c.Compression = jetstream.S2Compression
	}
	return c
}

// allow changes one setting of the bucket to true. Everything else of its
// configuration stays as the server has it, also what this version does not know.
func (s *stream) allow(ctx context.Context, setting string) (*facts, error) {
	return s.change(ctx, func(c map[string]json.RawMessage) error {
		c[setting] = json.RawMessage("true")
		return nil
	})
}

// change alters the configuration of the bucket.
func (s *stream) change(ctx context.Context, edit func(map[string]json.RawMessage) error) (*facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var raw struct {
		Config map[string]json.RawMessage `json:"config"`
	}
	if _, err := s.store.ask(ctx, "STREAM.INFO."+s.name, nil, &raw); err != nil {
		return nil, err
	}
	if err := edit(raw.Config); err != nil {
		return nil, err
	}
	if _, err := s.store.ask(ctx, "STREAM.UPDATE."+s.name, raw.Config, nil); err != nil {
		return nil, fmt.Errorf("change the settings of the bucket: %w", err)
	}
	return s.lookup(ctx)
}

// Operations that meet a bucket without a leader are tried again: that often, and
// after such a pause.
const (
	attempts      = 16
	attemptsPause = 250 * time.Millisecond
)

// retry runs do, and again while no server answers for a bucket that exists.
func (s *stream) retry(ctx context.Context, do func() error) error {
	for i := 1; ; i++ {
		err := do()
		if !isNoLeader(err) || i == attempts {
			return err
		}
		if _, err := s.refresh(ctx); err != nil && !isNoLeader(err) {
			return err
		}
		if err := pause(ctx, s.store.done, attemptsPause); err != nil {
			return err
		}
	}
}

// isNoLeader reports whether the request certainly had no effect, and may have one soon.
func isNoLeader(err error) bool {
	return err != nil && (errors.Is(err, errNoResponders) || isCode(err, codeUnavailable))
}

func pause(ctx context.Context, done <-chan struct{}, d time.Duration) error {
	if backoff.SleepOr(ctx, done, d) {
		return nil
	}
	return cmp.Or(context.Cause(ctx), errClosed)
}

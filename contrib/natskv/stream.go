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
	changing chan struct{}         // holds a token while the bucket is created or changed
	index    *index

	mu   sync.Mutex // for the order of what known becomes, and for last
	last *lookup    // the newest, which may have ended
}

// facts are what operations need to know about a bucket that exists.
type facts struct {
	asked    time.Time // when the server was
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
	st := &stream{store: s, bucket: bucket, name: streamPrefix + bucket, changing: make(chan struct{}, 1)}
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
	asked   time.Time              // when the server was
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
		asked: i.asked, created: i.Created, last: i.State.LastSeq, history: c.MaxMsgsPerSubject, maxAge: c.MaxAge, replicas: c.Replicas, direct: c.AllowDirect,
		ttl: c.AllowMsgTTL, atomic: c.AllowAtomicPublish, markers: c.SubjectDeleteMarkerTTL > 0, metadata: c.Metadata,
	}
}

// lookAgain is how old the facts about a bucket may be when they are used: others change it.
const lookAgain = 30 * time.Second

// find returns the facts about the bucket; errNoBucket if it does not exist. Facts that
// are old are looked up again, but not waited for.
func (s *stream) find(ctx context.Context) (*facts, error) {
	f := s.known.Load()
	if f == nil {
		return s.lookPatiently(ctx, false)
	}
	if time.Since(f.asked) > lookAgain {
		s.shared(attemptsPause)
	}
	return f, nil
}

// refresh returns the facts about the bucket as they are now.
func (s *stream) refresh(ctx context.Context) (*facts, error) { return s.lookPatiently(ctx, true) }

// lookPatiently is look, and again while the bucket has no leader.
func (s *stream) lookPatiently(ctx context.Context, fresh bool) (f *facts, err error) {
	err = s.retry(ctx, func() error {
		f, err = s.look(ctx, 0, fresh)
		return err
	})
	return f, err
}

// lookup is one question to the server about the bucket, for all who wait for its end.
type lookup struct {
	done  chan struct{} // closed when it has ended; then the rest is set
	ended time.Time
	facts *facts
	err   error
}

// recent reports whether the lookup has not ended, or has within pause.
func (l *lookup) recent(pause time.Duration) bool {
	select {
	case <-l.done:
		return time.Since(l.ended) < pause
	default:
		return true
	}
}

// shared returns the lookup that runs, or has ended within pause: then old is true. Without
// one it begins one.
func (s *stream) shared(pause time.Duration) (l *lookup, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l = s.last; l != nil && l.recent(pause) {
		return l, true
	}
	l = &lookup{done: make(chan struct{})}
	begun := s.store.start(func(ctx context.Context) {
		l.facts, l.err = s.ask(ctx)
		l.ended = time.Now()
		close(l.done)
	})
	if !begun {
		l.err = errClosed
		close(l.done)
	}
	s.last = l
	return l, false
}

// look waits for a shared lookup. One that began before the call does not do if fresh, nor
// if it says that there is no bucket: it may have been created in between.
func (s *stream) look(ctx context.Context, pause time.Duration, fresh bool) (*facts, error) {
	_, deadline := ctx.Deadline()
	for first := true; ; first = false {
		l, old := s.shared(pause)
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case old && first && (fresh || errors.Is(l.err, errNoBucket)):
			pause = 0
		case deadline && errors.Is(l.err, errTimeout): // which is not that of the call
		default:
			return l.facts, l.err
		}
	}
}

// ask asks the server about the bucket.
func (s *stream) ask(ctx context.Context) (*facts, error) {
	info, err := s.info(ctx)
	if errors.Is(err, errNoBucket) {
		s.known.Store(nil)
		s.index.lost()
	}
	if err != nil {
		return nil, err
	}
	return info.facts(), nil
}

// info asks the server to describe the bucket, and remembers the answer.
func (s *stream) info(ctx context.Context) (*streamInfo, error) {
	asked, info := s.store.clock.elapsed(), streamInfo{asked: time.Now()}
	if _, err := s.store.ask(ctx, "STREAM.INFO."+s.name, nil, &info); err != nil {
		if isCode(err, codeStreamNotFound) {
			return nil, errNoBucket
		}
		return nil, err
	}
	s.store.clock.learn(asked, info.Now)
	if info.Config.Mirror != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "find bucket", Space: s.bucket,
			Err: errors.New("the bucket is a mirror"), Hint: "open the bucket that it mirrors"}
	}
	s.learn(&info)
	return &info, nil
}

// learn remembers what the server has said of the bucket, unless something newer is known.
// An index that was made under other facts is made anew.
func (s *stream) learn(info *streamInfo) {
	if len(info.Alternates) > 1 {
		s.mirrored.Store(true)
	}
	f := info.facts()
	s.mu.Lock()
	old := s.known.Load()
	if old != nil && old.asked.After(f.asked) {
		s.mu.Unlock()
		return
	}
	s.known.Store(f)
	s.mu.Unlock()
	switch {
	case old == nil:
	case !old.created.Equal(f.created):
		s.index.lost()
	case old.maxAge != f.maxAge:
		s.index.reload()
	}
}

// lock makes the caller the only one that creates or changes the bucket, until it calls unlock.
func (s *stream) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.changing <- struct{}{}:
		return func() { <-s.changing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.store.done:
		return nil, errClosed
	}
}

// ensure returns the facts about the bucket, and creates it if it does not exist.
func (s *stream) ensure(ctx context.Context, o *TableOptions, database, table string) (*facts, error) {
	f, err := s.find(ctx)
	if !errors.Is(err, errNoBucket) {
		return f, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if f := s.known.Load(); f != nil {
		return f, nil
	}
	info, err := s.create(ctx, s.config(o, database, table))
	if isCode(err, codeStreamExists) { // someone else's first write came between
		return s.refresh(ctx)
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
		info := streamInfo{asked: time.Now()}
		sent, err := s.store.ask(ctx, "STREAM.CREATE."+s.name, c, &info)
		if !isCode(err, codeStoreNotCreated) && !isNoLeader(err) || i == attempts {
			return &info, unanswered(sent, err)
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
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var raw struct {
		Config map[string]json.RawMessage `json:"config"`
	}
	if _, err := s.askPatiently(ctx, "STREAM.INFO.", nil, &raw); err != nil {
		return nil, err
	}
	if err := edit(raw.Config); err != nil {
		return nil, err
	}
	if sent, err := s.askPatiently(ctx, "STREAM.UPDATE.", raw.Config, nil); err != nil {
		return nil, fmt.Errorf("change the settings of the bucket: %w", unanswered(sent, err))
	}
	return s.refresh(ctx)
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
		if _, err := s.look(ctx, attemptsPause, false); err != nil && !isNoLeader(err) {
			return err
		}
		if err := pause(ctx, s.store.done, attemptsPause); err != nil {
			return err
		}
	}
}

// askPatiently is ask of the store about the bucket, and again while that has no leader.
func (s *stream) askPatiently(ctx context.Context, what string, in, out any) (sent bool, err error) {
	err = s.retry(ctx, func() error {
		sent, err = s.store.ask(ctx, what+s.name, in, out)
		sent = sent && !isNoLeader(err)
		return err
	})
	return sent, err
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

package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// Defaults and limits of [Options].
const (
	// DefaultTimeout bounds requests whose context has no deadline.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxStale is how far what the index and the cache know of other writers
	// may be behind; MinMaxStale is the least that can be asked for.
	DefaultMaxStale = 3 * time.Second
	MinMaxStale     = 300 * time.Millisecond
	// DefaultIndexKeys is the default of [Options.IndexKeys].
	DefaultIndexKeys = 10_000_000
)

const defaultAPI = "$JS.API."

// Options configures a [Store]. Nil and zero fields mean the defaults.
type Options struct {
	// Layout is how tables, keys and values are stored. Default: NATS().
	Layout Layout
	// APIPrefix is the prefix of JetStream's API, as nats.go takes it: "$JS.hub.API" for
	// the domain hub. Default "$JS.API".
	APIPrefix string
	// Timeout bounds a request whose context has no deadline. Default DefaultTimeout.
	Timeout time.Duration
	// CacheBytes turns the coherent value cache on and bounds it for each bucket, in
	// bytes of values. Default 0: off.
	CacheBytes int64
	// MaxStale bounds how far List and cached values may be behind the writes of other
	// clients; see the package comment. Default DefaultMaxStale, at least MinMaxStale.
	MaxStale time.Duration
	// IndexKeys bounds the keys, deleted ones included and expired ones not, of the index
	// of one bucket. Lists of a bucket with more fail. Default DefaultIndexKeys.
	IndexKeys int
	// AuditEvery is how often the index of a bucket is compared with the server, to
	// notice keys that an operator has removed without a message, and how often it
	// forgets keys that have expired. It can only be compared while nothing is written.
	// Default DefaultAuditEvery.
	AuditEvery time.Duration
	// AnyReplica lets Get and GetMany ask any replica of a bucket that has several, or a mirror:
	// faster, but they may miss writes that were acknowledged, the caller's own too.
	// Default: the leader is asked.
	AnyReplica bool
}

func (o *Options) validate() error {
	var errs []error
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the Timeout is %v: want 0 (the default) or more", o.Timeout))
	}
	if o.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("the CacheBytes is %d: want 0 (off) or more", o.CacheBytes))
	}
	if o.MaxStale != 0 && o.MaxStale < MinMaxStale {
		errs = append(errs, fmt.Errorf("the MaxStale is %v: want 0 (the default) or at least %v", o.MaxStale, MinMaxStale))
	}
	if o.AuditEvery < 0 {
		errs = append(errs, fmt.Errorf("the AuditEvery is %v: want 0 (the default) or more", o.AuditEvery))
	}
	if o.IndexKeys < 0 {
		errs = append(errs, fmt.Errorf("the IndexKeys is %d: want 0 (the default) or more", o.IndexKeys))
	}
	if len(errs) > 0 {
		return mainstem.Errorf(mainstem.KindInvalid, "natskv options", "%w", errors.Join(errs...))
	}
	return nil
}

// Store is the buckets of one JetStream account, in one layout. All methods may be
// called from many goroutines. Close it; the connection stays the caller's.
type Store struct {
	nc         *nats.Conn
	layout     Layout
	api        string // prefix of the API, with the dot
	calls      *caller
	maxStale   time.Duration
	cacheBytes int64
	indexKeys  int
	auditEvery time.Duration
	anyReplica bool
	clock      *clock

	ctx    context.Context // of the feeds; ended by Close
	cancel context.CancelFunc
	done   chan struct{} // closed by Close
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		streams map[string]*stream
		feeds   map[*feed]struct{} // that run
		closed  bool
	}
}

// MinServer is the oldest version of NATS server that the package works with.
const MinServer = "2.11"

// OpenStore returns a store on a connection, which must be open. It asks the server
// for its version, and whether JetStream is there; else it is Unsupported. Nothing
// is created.
func OpenStore(ctx context.Context, nc *nats.Conn, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		nc: nc, layout: o.Layout, api: defaultAPI, maxStale: o.MaxStale, cacheBytes: o.CacheBytes,
		indexKeys: o.IndexKeys, auditEvery: o.AuditEvery, anyReplica: o.AnyReplica, clock: newClock(), done: make(chan struct{}),
	}
	if s.layout.kind == kindNATS {
		s.layout = NATS()
	}
	if o.APIPrefix != "" {
		s.api = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	if s.maxStale == 0 {
		s.maxStale = DefaultMaxStale
	}
	if s.auditEvery == 0 {
		s.auditEvery = DefaultAuditEvery
	}
	if s.indexKeys == 0 {
		s.indexKeys = DefaultIndexKeys
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	s.calls = newCaller(nc, timeout)
	s.mu.streams, s.mu.feeds = make(map[string]*stream), make(map[*feed]struct{})
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.wg.Go(s.monitor)
	return s, nil
}

// probe asks whether the server is one that the package works with.
func (s *Store) probe(ctx context.Context) error {
	if _, err := s.ask(ctx, "INFO", nil, nil); err != nil {
		e := &mainstem.Error{Kind: kindOf(err), Op: "open " + redact.Address(s.nc.ConnectedUrl()), Err: err}
		if errors.Is(err, errNoResponders) || e.Kind == mainstem.KindUnsupported {
			e.Kind, e.Hint = mainstem.KindUnsupported, "start the server with JetStream (-js), and give the account access to it"
		}
		return e
	}
	if v := s.nc.ConnectedServerVersion(); !atLeast(v, MinServer) {
		return mainstem.Errorf(mainstem.KindUnsupported, "open "+redact.Address(s.nc.ConnectedUrl()), "the server has version %s: want %s or newer", v, MinServer).
			WithHint("upgrade nats-server")
	}
	return nil
}

// atLeast compares the first two numbers of versions.
func atLeast(version, want string) bool {
	number := func(s string, i int) int {
		fields := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	if a, b := number(version, 0), number(want, 0); a != b {
		return a > b
	}
	return number(version, 1) >= number(want, 1)
}

// Layout returns the layout of the store.
func (s *Store) Layout() Layout { return s.layout }

// Close ends what the store has running: its indexes, and calls and watches, which
// fail with Closed. The connection stays open. Closing twice is allowed.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if !closed {
		close(s.done)
		s.cancel()
		s.calls.close()
	}
	s.wg.Wait()
	return nil
}

// monitor wakes the feeds when the connection is back, rather than when they
// notice that nothing comes.
func (s *Store) monitor() {
	changes := s.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer s.nc.RemoveStatusListener(changes)
	for {
		select {
		case <-s.done:
			return
		case status, ok := <-changes:
			if !ok {
				return
			}
			s.wakeFeeds()
			if status == nats.CLOSED {
				return
			}
		}
	}
}

func (s *Store) wakeFeeds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.mu.feeds {
		f.wake()
	}
}

// track has wakeFeeds know f until the function returned is called.
func (s *Store) track(f *feed) (untrack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.feeds[f] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.feeds, f)
	}
}

// stream returns the one handle on a bucket.
func (s *Store) stream(bucket string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.mu.streams[bucket]
	if st == nil {
		st = newStream(s, bucket)
		s.mu.streams[bucket] = st
	}
	return st
}

// start runs f until the store is closed; it is false if it is already.
func (s *Store) start(f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.wg.Go(func() { f(s.ctx) })
	return true
}

// ask sends a request to JetStream's API and decodes the answer into out, if it is
// not nil. sent is as in [caller.call].
func (s *Store) ask(ctx context.Context, subject string, in, out any) (sent bool, err error) {
	r := request{subject: s.api + subject}
	if in != nil {
		if r.data, err = json.Marshal(in); err != nil {
			return false, err
		}
	}
	m, sent, err := s.calls.call(ctx, &r)
	if err != nil {
		return sent, err
	}
	var no struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &no); err != nil {
		return true, fmt.Errorf("the answer %.100q to %s is not JSON: %w", m.Data, subject, err)
	}
	if no.Error != nil {
		return true, no.Error
	}
	if out == nil {
		return true, nil
	}
	return true, json.Unmarshal(m.Data, out)
}

// Now returns the time of the servers' clock, by what they have answered. The times of
// entries, such as [kv.Entry.Expires], are times of that clock. Steps of this machine's
// clock do not change it.
func (s *Store) Now() time.Time { return time.Unix(0, s.clock.now()) }

// clock estimates the clock of the server from its answers. From one answer to the next it
// goes on by the monotonic clock, which steps of the wall clock do not move.
type clock struct {
	elapsed func() time.Duration // the monotonic clock, since the clock was made
	origin  atomic.Int64         // the server's time when elapsed was 0, in unix nanoseconds

	mu struct {
		sync.Mutex
		least, most int64         // the bounds of origin
		known       time.Duration // since when they are known
	}
}

// apart is how much of the time that goes by two clocks may differ by, as 1/apart: those that are
// being set right without a step run up to 1/2000 too fast or too slow.
const apart = 1000

// newClock returns a clock that shows the time of this machine until it learns that of the
// server.
func newClock() *clock {
	start := time.Now()
	c := &clock{elapsed: func() time.Duration { return time.Since(start) }}
	c.origin.Store(start.UnixNano())
	c.mu.least, c.mu.most = math.MinInt64/2, math.MaxInt64/2
	return c
}

// learn takes an answer with the server's time. asked is what elapsed was before the question.
// The server has read its clock at any time since. An answer that took long, because a process
// stood still, so says little: what is known already remains, as far as the answer bears it out.
// If it does not, a clock was set, or another server has answered.
func (c *clock) learn(asked time.Duration, server time.Time) {
	if server.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	least := server.UnixNano() - int64(now)
	most := least + int64(now-asked)
	drift := int64(now-c.mu.known) / apart
	if l, m := max(least, c.mu.least-drift), min(most, c.mu.most+drift); l <= m {
		least, most = l, m
	}
	c.mu.least, c.mu.most, c.mu.known = least, most, now
	c.origin.Store(least + (most-least)/2)
}

// now returns the server's time in unix nanoseconds, as far as it is known.
func (c *clock) now() int64 { return c.origin.Load() + int64(c.elapsed()) }

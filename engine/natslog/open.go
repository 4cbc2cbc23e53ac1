package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/redact"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// MinServer is the oldest NATS server with all that the engine needs: atomic batch
// publish came with it.
const MinServer = "2.12.0"

// maxPings is how many pings may be without an answer: with the next one that is due the
// connection is given up, and made anew. So a ping is sent every Options.Silence/(maxPings+1).
// The client's own limit is minutes, and TCP, while nothing arrives, sends ever less often.
const maxPings = 3

// metadataFormat is the entry of a stream's metadata that says what it carries.
const (
	metadataFormat = "mainstem.format"
	streamFormat   = "1"
)

// Open connects to the NATS servers at address and opens the log that its stream
// carries; it creates the stream unless it exists. An address is one URL or several
// separated by commas, with options of its own:
//
//	nats://user:secret@one:4222,nats://two:4222?stream=ORDERS&replicas=3
//
// They are stream, replicas, cluster and tags (of the placement), domain, silence and latest;
// see [Options], which they override. Reading the state of a log takes a time in
// proportion to its records.
func Open(address string, o *Options) (*Log, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	servers, err := c.fromURL(address)
	if err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	options := append(c.report(),
		nats.Name("mainstem"), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.PingInterval(c.Silence/(maxPings+1)), nats.MaxPingsOutstanding(maxPings),
		nats.ReconnectBufSize(-1), // what cannot be sent fails: a commit tries again itself
	)
	conn, err := connect(servers, c.Timeout, append(options, c.Connect...)...)
	if err != nil {
		e := mapError("open "+redact.Address(servers), redact.Error(err, servers))
		if e.Hint == "" {
			e.Hint = "is a NATS server running there?"
		}
		return nil, e
	}
	l, err := openOn(conn, &c)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.owned = true
	return l, nil
}

// connect connects to one of the servers. The client allows each of them nats.Timeout, also when it reconnects: if that
// is too short for a server that stands still, connect tries again for as long as timeout. Any other error ends it.
func connect(servers string, timeout time.Duration, options ...nats.Option) (*nats.Conn, error) {
	began := time.Now()
	for failures := 1; ; failures++ {
		conn, err := nats.Connect(servers, options...)
		var slow net.Error
		if err == nil || !errors.Is(err, nats.ErrTimeout) && !(errors.As(err, &slow) && slow.Timeout()) {
			return conn, err
		}
		pause := openAgain.Delay(failures)
		if time.Since(began)+pause >= timeout {
			return nil, err
		}
		<-time.After(pause)
	}
}

// OpenConn opens a log on a connection of the caller, who closes it after the log.
// The connection should reconnect without end.
func OpenConn(conn *nats.Conn, o *Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return openOn(conn, o)
}

// openOn opens a log with valid options.
func openOn(conn *nats.Conn, o *Options) (*Log, error) {
	l, last, err := newLog(conn, o)
	if err != nil {
		return nil, err
	}
	l.running.Add(3)
	go l.watch(conn.StatusChanged(nats.CONNECTED))
	go l.follow()
	go l.commits()
	if err := l.load(last); err != nil {
		_ = l.Close()
		return nil, err
	}
	l.running.Add(1)
	go l.sweeps()
	return l, nil
}

// newLog returns a log without its goroutines, and the sequence of the newest message of
// its stream, which it creates unless it exists.
func newLog(conn *nats.Conn, o *Options) (l *Log, last uint64, err error) {
	opts := o.withDefaults()
	if err := checkServer(conn.ConnectedServerVersion()); err != nil {
		return nil, 0, err
	}
	l = &Log{
		opts: opts, conn: conn, subject: "mainstem." + opts.Stream, api: "$JS.API.", stopping: make(chan struct{}),
		limit: int(conn.MaxPayload()), cache: newCache(opts.CacheBytes), replay: replay{st: newState()},
	}
	l.clock = wallclock.New(wallclock.Options{Now: opts.Now, Monotonic: opts.Monotonic, Logger: opts.Logger})
	l.queue.wake, l.hurry = make(chan struct{}, 1), make(chan struct{}, 1)
	l.root, l.end = context.WithCancel(context.Background())
	l.ctx, l.cancel = context.WithCancel(l.root)
	l.js, err = jetstream.New(conn)
	if opts.Domain != "" {
		l.api = "$JS." + opts.Domain + ".API."
		l.js, err = jetstream.NewWithDomain(conn, opts.Domain)
	}
	if err != nil {
		return nil, 0, mapError("open", err)
	}
	ctx, cancel := context.WithTimeout(l.ctx, opts.Timeout)
	defer cancel()
	l.newSession()
	if last, err = l.ensureStream(ctx); err != nil {
		l.end()
		return nil, 0, err
	}
	return l, last, nil
}

// checkServer returns an error if a server of this version lacks what is needed.
func checkServer(version string) error {
	var have, want [3]int
	for _, v := range []struct {
		text string
		to   *[3]int
	}{{version, &have}, {MinServer, &want}} {
		number, _, _ := strings.Cut(strings.TrimPrefix(v.text, "v"), "-")
		if _, err := fmt.Sscanf(number, "%d.%d.%d", &v.to[0], &v.to[1], &v.to[2]); err != nil {
			return mainstem.Errorf(mainstem.KindUnsupported, "open", "the server's version %q cannot be read: %w", v.text, err)
		}
	}
	if slices.Compare(have[:], want[:]) < 0 {
		return mainstem.Errorf(mainstem.KindUnsupported, "open", "the NATS server has version %s: atomic batch publish needs %s or newer", version, MinServer).
			WithHint("upgrade the server")
	}
	return nil
}

// openAgain is the pause between two attempts to connect, or to create the stream.
var openAgain = backoff.Policy{First: retryPause, Max: time.Second}

// ensureStream creates the stream unless it exists, checks that it can carry a log,
// and returns the sequence of its newest message. Servers that have just started may
// not know each other yet: it tries again until ctx is done.
func (l *Log) ensureStream(ctx context.Context) (last uint64, err error) {
	var refusal error // the newest answer of a server
	for failures := 0; ; {
		s, err := l.findStream(ctx)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			continue // another process has just created it
		}
		if err == nil {
			info := s.CachedInfo()
			l.created = info.Created
			return info.State.LastSeq, checkStream(&info.Config, l.subject)
		}
		var api *jetstream.APIError
		if errors.As(err, &api) {
			refusal = err // says more than the timeout that may follow
		}
		e := mapError("open stream "+l.opts.Stream, err)
		if e.Kind == mainstem.KindInvalid || e.Kind == mainstem.KindNotFound || e.Kind == mainstem.KindDenied {
			return 0, e
		}
		failures++
		if ctx.Err() != nil || !l.pause(openAgain.Delay(failures)) {
			if refusal != nil {
				e = mapError("open stream "+l.opts.Stream, refusal)
			}
			return 0, e
		}
	}
}

// findStream returns the stream, which it creates unless it exists: one attempt.
func (l *Log) findStream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := l.try(ctx)
	defer cancel()
	s, err := l.js.Stream(ctx, l.opts.Stream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	if l.opts.MustExist {
		return nil, mainstem.Errorf(mainstem.KindNotFound, "open", "there is no stream %s", l.opts.Stream)
	}
	return l.js.CreateStream(ctx, l.streamConfig())
}

func (l *Log) streamConfig() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: l.opts.Stream, Description: "a Mainstem log", Subjects: []string{l.subject},
		Replicas: max(l.opts.Replicas, 1), Storage: jetstream.FileStorage,
		AllowAtomicPublish: true, AllowDirect: true, Discard: jetstream.DiscardNew,
		Metadata: map[string]string{metadataFormat: streamFormat},
	}
	if l.opts.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	if l.opts.Compress {
		c.Compression = jetstream.S2Compression
	}
	if p := l.opts.Placement; p.Cluster != "" || len(p.Tags) > 0 {
		c.Placement = &jetstream.Placement{Cluster: p.Cluster, Tags: p.Tags}
	}
	return c
}

// checkStream returns an error unless a stream can carry a log: it must keep every
// message until it is deleted.
func checkStream(c *jetstream.StreamConfig, subject string) error {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(c.Metadata[metadataFormat] == streamFormat, "its metadata %s is %q, want %q", metadataFormat, c.Metadata[metadataFormat], streamFormat)
	check(slices.Equal(c.Subjects, []string{subject}), "its subjects are %q, want %q", c.Subjects, subject)
	check(c.AllowAtomicPublish, "it does not allow atomic publish")
	check(c.AllowDirect, "it does not allow direct get")
	check(c.MaxAge == 0 && c.MaxMsgs <= 0 && c.MaxMsgsPerSubject <= 0, "it has limits on age or number of messages")
	check(c.MaxBytes <= 0 || c.Discard == jetstream.DiscardNew, "it discards old messages when it is full")
	check(c.Retention == jetstream.LimitsPolicy, "its retention is %s, want limits", c.Retention)
	check(!c.DenyDelete && !c.Sealed, "it denies deletion")
	if len(wrong) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open stream " + c.Name,
		Err:  errors.New("the stream cannot carry a log: " + strings.Join(wrong, "; ")),
		Hint: "use a stream of its own, which Open creates"}
}

// load waits until the state holds everything up to the message last.
func (l *Log) load(last uint64) error {
	for {
		seen := l.progress()
		err := l.awaitSeq(l.ctx, last, time.Now().Add(l.opts.Timeout))
		if err == nil {
			return nil
		}
		if l.progress() == seen || l.broken() != nil {
			return mapError("open stream "+l.opts.Stream, err)
		}
	}
}

// complete reports whether the state holds what the stream held when the log was opened.
func (l *Log) complete() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.loaded
}

func (l *Log) seen() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.st.seq
}

// deleteMessage removes one message of the stream; one that is gone is fine.
func (l *Log) deleteMessage(ctx context.Context, seq uint64, erase bool) error {
	request, err := json.Marshal(map[string]any{"seq": seq, "no_erase": !erase})
	if err != nil {
		return err
	}
	ctx, cancel := l.try(ctx)
	defer cancel()
	reply, err := l.conn.RequestWithContext(ctx, l.api+"STREAM.MSG.DELETE."+l.opts.Stream, request)
	if err != nil {
		return err
	}
	var a ack
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return err
	}
	if a.Error == nil || a.Error.ErrCode == codeNoSequence {
		return nil
	}
	if _, err := l.getFromLeader(ctx, seq); errors.Is(err, errGone) {
		return nil // however the server says so
	}
	return fmt.Errorf("delete message %d: %s (%d)", seq, a.Error.Description, a.Error.ErrCode)
}

// codeNoSequence is the server's error for the deletion of a message that is not there.
const codeNoSequence = 10043

package remotelog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/message"
	"github.com/mainstemdev/mainstem/internal/redact"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
)

// MaxBackoff is the longest pause before a follower connects again.
const MaxBackoff = 2 * time.Second

// closeGrace is how long Close waits for running calls, and the timeout for closing a snapshot.
const closeGrace = 5 * time.Second

// errClosed is the cause of the end of calls when the Log is closed.
var errClosed = errors.New("the remote log was closed")

// Log is a log that another process serves. It implements [mainstem.Log], [mainstem.Snapshotter],
// [mainstem.Backuper] and [mainstem.Checker]; an operation that the engine of the server does not
// have fails with Unsupported. [Open] makes it. Its methods may be called from many goroutines.
type Log struct {
	reader
	o        Options
	client   mainstemv1connect.LogServiceClient
	doer     *doer
	sessions sessions
	grace    time.Duration // closeGrace, or less in tests
	renewal  time.Duration // between renewals of a snapshot's lease, in tests; 0: renewEvery
	encoders sync.Pool     // of *message.Encoder
	ids      *batchIDs

	closing     context.Context // done when Close is called, which ends streams
	startClose  context.CancelFunc
	killed      context.Context // done when Close has waited long enough, which ends all calls
	kill        context.CancelFunc
	background  sync.WaitGroup // goroutines of snapshots and of sessions
	closeOnce   sync.Once
	mu          sync.Mutex
	closed      bool          // under mu
	running     int           // number of calls with one answer; under mu
	lastRunning chan struct{} // closed when closed is set and running is 0
}

var (
	_ mainstem.Log         = (*Log)(nil)
	_ mainstem.Snapshotter = (*Log)(nil)
	_ mainstem.Backuper    = (*Log)(nil)
	_ mainstem.Checker     = (*Log)(nil)
)

// Open returns a log for the server at url, such as http://127.0.0.1:8080 or https://host/prefix.
// It does not connect: the first call does, and fails if the server cannot be reached ([Log.Info]
// does nothing else). An invalid URL, or invalid options, give an error of kind Invalid.
func Open(url string, o *Options) (*Log, error) {
	u, err := parseURL(url)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open remote log", "%w", redact.Error(err, url))
	}
	l := &Log{o: o.withDefaults(), grace: closeGrace, lastRunning: make(chan struct{}), ids: newBatchIDs()}
	if err := l.o.validate(u); err != nil {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open remote log", "%w", redact.Error(err, url))
	}
	l.reader.l = l
	l.encoders.New = func() any { return new(message.Encoder) }
	l.closing, l.startClose = context.WithCancel(context.Background())
	l.killed, l.kill = context.WithCancel(context.Background())
	l.doer = newDoer(u, &l.o, &l.sessions.token)
	l.sessions.init(u, &l.o, l.doer.learn)
	l.client = mainstemv1connect.NewLogServiceClient(l.doer, strings.TrimRight(u.String(), "/"), l.o.connectOptions()...)
	return l, nil
}

func (o *Options) connectOptions() []connect.ClientOption {
	var options []connect.ClientOption
	switch o.Protocol {
	case GRPC:
		options = append(options, connect.WithGRPC())
	case GRPCWeb:
		options = append(options, connect.WithGRPCWeb())
	}
	if o.JSON {
		options = append(options, connect.WithProtoJSON())
	}
	if o.Compression {
		return append(options, connect.WithSendGzip(), connect.WithCompressMinBytes(1<<10))
	}
	return append(options, connect.WithAcceptCompression("gzip", nil, nil))
}

// Close waits a few seconds for running calls, ends sequences with Closed, and closes the
// connections. It does not affect the server and its log. It may be called twice.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		if l.running == 0 {
			close(l.lastRunning)
		}
		l.mu.Unlock()
		l.startClose()
		select {
		case <-l.lastRunning:
		case <-time.After(l.grace):
		}
		l.kill()
		<-l.lastRunning
		l.background.Wait()
		l.doer.close()
	})
	return nil
}

// begin begins a call with one answer, after which the caller must call end. It returns false if
// the Log is closed.
func (l *Log) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running++
	return true
}

func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.closed && l.running == 0 {
		close(l.lastRunning)
	}
}

// until returns a context that ends with ctx or, with the cause errClosed, when end does.
func until(ctx, end context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(end, func() { cancel(errClosed) })
	if end.Err() != nil {
		cancel(errClosed) // at once, not only when the goroutine of AfterFunc runs
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// retryPolicy is the pause before a retry. Its jitter keeps clients from retrying at the same
// time.
var retryPolicy = backoff.Policy{First: 20 * time.Millisecond, Max: MaxBackoff, Jitter: 0.5}

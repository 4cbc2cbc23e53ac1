package link_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// logged is a log in memory.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns how many lines have a text.
func (l *logged) lines(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// fortress is a node with a good peer, to which strangers connect.
type fortress struct {
	t    *testing.T
	node *link.Endpoint
	log  logged
	at   hears
	ally *link.Endpoint // the good peer's
	good *link.Peer
}

// newFortress begins again if the good peer's own handshakes take too long.
func newFortress(t *testing.T, change func(*link.Options)) *fortress {
	t.Helper()
	var f *fortress
	testkit.Succeeds(t, "a good peer", func() (err error) {
		f = &fortress{t: t}
		if err = f.begin(change); err != nil {
			shut(t, f.ally)
			shut(t, f.node)
		}
		return err
	})
	return f
}

// begin opens the fortress, with all connections of the good peer.
func (f *fortress) begin(change func(*link.Options)) (err error) {
	f.t.Helper()
	o := plain("fortress")
	o.Log = slog.New(slog.NewTextHandler(&f.log, nil))
	if change != nil {
		change(o)
	}
	f.node = open(f.t, o, &f.at)
	og := plain("good")
	og.Resolve, og.KeepAlive = at(f.node), o.KeepAlive // a busy machine must not take the good one for silent
	f.ally = open(f.t, og, &hears{})
	if f.good, err = f.ally.Peer(within(f.t), "fortress"); err != nil {
		return err
	}
	testkit.Eventually(f.t, "the connections of the good peer", func() bool {
		s := f.good.Stats()
		return s.Connected == s.Connections || len(f.at.downs()) > 0
	})
	if len(f.at.downs()) > 0 || f.log.lines("refused a connection") > 0 {
		return errors.New("a handshake of the good peer failed")
	}
	return nil
}

// hasty makes a fortress close connections soon whose handshake takes too long.
func hasty(o *link.Options) { o.HandshakeTimeout = time.Second }

// dial connects as a stranger.
func (f *fortress) dial() net.Conn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.node.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// refused waits until the fortress has closed a connection.
func (f *fortress) refused(c net.Conn) {
	f.t.Helper()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Fatal("the connection was not closed")
	}
}

// undisturbed checks that the good peer noticed nothing.
func (f *fortress) undisturbed() {
	f.t.Helper()
	before := f.at.count.Load()
	for lane := range uint32(4) {
		if err := f.good.Send(within(f.t), lane, link.ExactlyOnce, number(1)); err != nil {
			f.t.Fatal(err)
		}
	}
	testkit.Eventually(f.t, "the messages of the good peer", func() bool { return f.at.count.Load() == before+4 })
	if f.at.ups() != 1 || len(f.at.downs()) != 0 || f.good.Stats().Reconnects != 0 {
		f.t.Errorf("%d sessions began, %d ended, %d connections were made again", f.at.ups(), len(f.at.downs()), f.good.Stats().Reconnects)
	}
}

func hello(from, to string) frame.Hello {
	return frame.Hello{Oldest: 1, Newest: frame.Version, Start: 77, Name: from, To: to}
}

func TestStrangersAreRefused(t *testing.T) {
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	whole := hello("evil", "fortress").Append(nil)
	badMagic := bytes.Replace(whole, []byte("mainstem"), []byte("mainstew"), 1)
	late := hello("evil", "fortress")
	late.Oldest, late.Newest = 9, 9
	proof := frame.Proof{Terms: frame.Terms{Connections: 1, Window: 1 << 20, MaxMessage: 1 << 20}}
	data := frame.Header{Type: frame.Data, Length: 9, Size: 9, Number: 1}.Append(nil, frame.Entry{Lane: 1, Body: []byte("x")}.Append(nil))
	for name, sent := range map[string][]byte{
		"random":               random,
		"http":                 []byte("GET / HTTP/1.1\r\nHost: fortress\r\n\r\n"),
		"zeros":                make([]byte, 5000),
		"another magic":        badMagic,
		"another version":      late.Append(nil),
		"another node":         hello("evil", "castle").Append(nil),
		"its own name":         hello("fortress", "fortress").Append(nil),
		"an empty name":        hello("", "fortress").Append(nil),
		"an impossible name":   hello("a/b", "fortress").Append(nil),
		"a huge length":        {byte(frame.StepHello), 0, 0xff, 0xff, 1, 2, 3},
		"a step too early":     proof.Append(nil),
		"no proof":             proof.Append(whole),
		"data at once":         data,
		"data without a proof": append(bytes.Clone(whole), data...),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFortress(t, hasty)
			c := f.dial()
			if _, err := c.Write(sent); err != nil {
				t.Fatal(err)
			}
			f.refused(c)
			testkit.Eventually(t, "a line in the log", func() bool { return f.log.lines("refused a connection") == 1 })
			f.undisturbed()
		})
	}
}

// TestPartsOfAHandshake: whatever part of a handshake comes, the connection is closed in time.
func TestPartsOfAHandshake(t *testing.T) {
	f := newFortress(t, hasty)
	whole := hello("evil", "fortress").Append(nil)
	var open []net.Conn
	for n := range whole {
		c := f.dial()
		if _, err := c.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		f.refused(c)
	}
	if got := f.log.lines("refused a connection"); got != 1 {
		t.Errorf("%d lines about %d attempts of one host", got, len(open))
	}
	f.undisturbed()
}

// TestManySilentConnections checks that strangers that connect and send nothing, or little, neither
// keep peers out nor take memory.
func TestManySilentConnections(t *testing.T) {
	f := newFortress(t, func(o *link.Options) { o.MaxHandshakes, o.HandshakeTimeout = 8, time.Minute })
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	drip := hello("evil", "fortress").Append(nil)[:20]
	for range 300 {
		if _, err := f.dial().Write(drip); err != nil {
			t.Fatal(err)
		}
	}
	og := plain("late")
	og.Resolve = at(f.node)
	late := peer(t, open(t, og, &hears{}), "fortress")
	if err := late.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the message of a node that came late", func() bool { return f.at.count.Load() == 1 })
	testkit.Eventually(t, "the end of the handshakes", func() bool { return runtime.NumGoroutine() < goroutines+60 })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// TestReplayedHandshake checks that the recorded bytes of a good handshake are refused.
func TestReplayedHandshake(t *testing.T) {
	f := newFortress(t, func(o *link.Options) { o.Connections = 2 })
	r := record(t, f.node.Addr().String())
	ov := plain("victim")
	ov.Connections = 2
	ov.Resolve = func(context.Context, string) (string, error) { return r.l.Addr().String(), nil }
	p := peer(t, open(t, ov, &hears{}), "fortress")
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the message, and both connections", func() bool { return f.at.count.Load() == 1 && p.Stats().Connected == 2 })
	for _, bytes := range r.recorded() { // one began the session, one joined it
		c := f.dial()
		_, _ = c.Write(bytes)
		f.refused(c)
	}
	testkit.Eventually(t, "a line in the log", func() bool { return f.log.lines("secrets") == 1 })
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(2)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the next message", func() bool { return f.at.count.Load() == 2 })
	if got := f.at.ups(); got != 2 || p.Stats().Reconnects != 0 {
		t.Errorf("%d sessions, %d connections made again", got, p.Stats().Reconnects)
	}
}

// recorder stands between nodes and keeps what dialers say.
type recorder struct {
	l     net.Listener
	mu    sync.Mutex
	heard []*bytes.Buffer
}

func record(t *testing.T, target string) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{l: l}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			tape := r.tape()
			pumps.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
			pumps.Go(func() { _, _ = io.Copy(io.MultiWriter(tape, to), from); _ = to.Close() })
		}
	})
	t.Cleanup(pumps.Wait) // after the nodes have been closed
	t.Cleanup(func() { _ = l.Close() })
	return r
}

// tape returns a writer that keeps what it gets.
func (r *recorder) tape() io.Writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	r.heard = append(r.heard, &b)
	return writerFunc(func(p []byte) (int, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return b.Write(p)
	})
}

func (r *recorder) recorded() (all [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.heard {
		all = append(all, bytes.Clone(b.Bytes()))
	}
	return all
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWrongSecret(t *testing.T) {
	f := newFortress(t, nil)
	o := plain("evil")
	o.Secret = []byte("a guess that is long enough")
	o.Resolve = at(f.node)
	evil := open(t, o, &hears{})
	for range 5 {
		if _, err := evil.Peer(within(t), "fortress"); !errors.Is(err, mainstem.ErrDenied) || !errors.Is(err, link.ErrRefused) {
			t.Errorf("a wrong secret: %v", err)
		}
	}
	testkit.Eventually(t, "a line in the log", func() bool { return f.log.lines("refused a connection") == 1 })
	f.undisturbed()
}

// TestAcceptorMustProveItself checks that a stranger that listens at the address of a node gets no
// secret, and is refused.
func TestAcceptorMustProveItself(t *testing.T) {
	o := plain("b")
	o.Secret = []byte("another secret, long enough")
	b := open(t, o, &hears{})
	oa := plain("a")
	oa.Resolve = at(b)
	if _, err := open(t, oa, &hears{}).Peer(within(t), "b"); !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("a node with another secret is believed: %v", err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	oc := plain("c")
	oc.HandshakeTimeout = 50 * time.Millisecond
	oc.Resolve = func(context.Context, string) (string, error) { return mute.Addr().String(), nil }
	if _, err := open(t, oc, &hears{}).Peer(within(t), "b"); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestCertificates(t *testing.T) {
	ca, other := authority(t), authority(t)
	ob := secured(t, ca, "b")
	var log logged
	ob.Log = slog.New(slog.NewTextHandler(&log, nil))
	b := open(t, ob, &hears{})
	for name, c := range map[string]struct {
		change func(*link.Options)
		good   bool
	}{
		"good":              {func(*link.Options) {}, true},
		"another name":      {func(o *link.Options) { o.TLS.Certificate = issue(t, ca, "c") }, false},
		"another authority": {func(o *link.Options) { o.TLS.Certificate = issue(t, other, "a") }, false},
		"other roots":       {func(o *link.Options) { o.TLS.Roots = other.Roots() }, false},
		"no TLS":            {func(o *link.Options) { o.TLS, o.Plain = nil, true }, false},
		"another secret":    {func(o *link.Options) { o.Secret = nil }, false},
		"renewed": {func(o *link.Options) {
			o.TLS.Certificate = tls.Certificate{}
			o.TLS.Renew = func() (*tls.Certificate, error) { c := issue(t, ca, "a"); return &c, nil }
		}, true},
	} {
		o := secured(t, ca, "a")
		o.Resolve = at(b)
		c.change(o)
		a := open(t, o, &hears{})
		p, err := a.Peer(within(t), "b")
		if c.good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := a.Close(within(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			testkit.Eventually(t, "the end of the session", func() bool { return len(b.Peers()) == 0 })
		}
	}
	// The acceptor has the certificate of another node.
	oc := secured(t, ca, "c")
	oc.TLS.Certificate = issue(t, ca, "b")
	c := open(t, oc, &hears{})
	oa := secured(t, ca, "a")
	oa.Resolve = at(c)
	if _, err := open(t, oa, &hears{}).Peer(within(t), "c"); !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("a node with the certificate of another is believed: %v", err)
	}
}

func issue(t testing.TB, ca *devca.Authority, name string) tls.Certificate {
	t.Helper()
	c, err := ca.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// traitor is a peer with the secret that does not keep to the protocol.
func (f *fortress) traitor(frames ...[]byte) net.Conn {
	f.t.Helper()
	c := f.dial()
	if err := link.ProveForTest(c, secret, hello("traitor", "fortress"), frame.Terms{Connections: 1, Window: 1 << 20, MaxMessage: 1 << 20}); err != nil {
		f.t.Fatal(err)
	}
	for _, b := range frames {
		_, _ = c.Write(b)
	}
	return c
}

func TestTraitors(t *testing.T) {
	entry := func(e frame.Entry) []byte { return e.Append(nil) }
	data := func(n uint64, payload []byte) []byte {
		return frame.Header{Type: frame.Data, Number: n, Length: uint32(len(payload)), Size: uint32(len(payload))}.Append(nil, payload)
	}
	packed := func(c uint8, size int, payload []byte) []byte {
		return frame.Header{Type: frame.Data, Number: 1, Compression: c, Length: uint32(len(payload)), Size: uint32(size)}.Append(nil, payload)
	}
	part := data(1, entry(frame.Entry{Flags: frame.Part | frame.More, Lane: 1, Body: make([]byte, 60_000)}))
	var endless [][]byte
	for i := range uint64(40) {
		endless = append(endless, data(i+1, entry(frame.Entry{Flags: frame.Part | frame.More, Lane: 1, Body: make([]byte, 60_000)})))
	}
	for name, c := range map[string]struct {
		frames [][]byte
		ends   bool // the session: what came is the peer's fault, not the network's
	}{
		"a gap":                  {[][]byte{data(2, entry(frame.Entry{Lane: 1}))}, true},
		"an entry too long":      {[][]byte{data(1, binary.BigEndian.AppendUint32(nil, 1<<31))}, true},
		"no lane":                {[][]byte{data(1, []byte{0, 0, 0, 1})}, true},
		"unknown flags":          {[][]byte{data(1, []byte{0, 0, 0, 4, 0, 0, 0, 1})}, true},
		"an endless message":     {endless, true},
		"a false ack":            {[][]byte{frame.Header{Type: frame.Ack, Ack: 9}.Append(nil, nil)}, true},
		"a broken farewell":      {[][]byte{frame.Header{Type: frame.Bye, Length: 1, Size: 1}.Append(nil, []byte{9})}, true},
		"LZ4 that is none":       {[][]byte{packed(1, 1000, []byte("nothing that LZ4 made"))}, true},
		"Zstandard that is none": {[][]byte{packed(2, 1000, []byte("nothing that Zstandard made"))}, true},
		"a bomb":                 {[][]byte{packed(2, 100, bomb(t))}, true},
		"a wrong checksum":       {[][]byte{append(part[:len(part)-1:len(part)-1], 1)}, false},
		"an unknown frame":       {[][]byte{append([]byte{9}, make([]byte, 31)...)}, false},
		"a frame too long":       {[][]byte{append([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, make([]byte, 24)...)}, false},
		"half a frame":           {[][]byte{part[:100]}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFortress(t, func(o *link.Options) {
				o.MaxMessage, o.KeepAlive = 1<<20, 200*time.Millisecond
				if !c.ends { // else it must not matter
					o.Resume = time.Second
				}
			})
			f.refused(f.traitor(c.frames...))
			testkit.Eventually(t, "the end of the session", func() bool { return len(f.at.downsOf("traitor")) == 1 })
			if got := f.at.downsOf("traitor")[0]; c.ends != errors.Is(got, link.ErrProtocol) {
				t.Errorf("the session ended: %v", got)
			}
			if f.at.count.Load() != 0 {
				t.Error("a message arrived")
			}
			testkit.Eventually(t, "a message of the good peer", func() bool {
				p, err := f.good, error(nil)
				if !c.ends { // the session of the good one may have ended too, for silence
					p, err = f.ally.Peer(within(t), "fortress")
				}
				if err == nil {
					err = p.Send(within(t), 1, link.ExactlyOnce, number(1))
				}
				if err != nil && c.ends {
					t.Fatal(err)
				}
				return f.at.count.Load() > 0
			})
			for _, reason := range f.at.downsOf("good") {
				if c.ends || errors.Is(reason, link.ErrProtocol) {
					t.Errorf("the session of the good peer ended: %v", reason)
				}
			}
		})
	}
}

// bomb is a Zstandard frame of a megabyte of zeros.
func bomb(t *testing.T) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(make([]byte, 1<<20), nil)
}

// TestOddNames: names that no host can have are certified as well.
func TestOddNames(t *testing.T) {
	ca := authority(t)
	names := []string{"shop@10.0.0.1:4000", "ä b%2F?#", strings.Repeat("n", link.MaxName)}
	var heard hears
	b := open(t, secured(t, ca, "b"), &heard)
	for i, name := range names {
		o := secured(t, ca, name)
		o.Resolve = at(b)
		p := peer(t, open(t, o, &hears{}), "b")
		if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		testkit.Eventually(t, "the message", func() bool { return heard.count.Load() == int64(i)+1 })
	}
	// Another escaping of a name is another name.
	o := secured(t, ca, "b")
	o.Name, o.Resolve = "%62", at(b)
	if _, err := open(t, o, &hears{}).Peer(within(t), "b"); !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("a certificate for b is good for %%62: %v", err)
	}
}

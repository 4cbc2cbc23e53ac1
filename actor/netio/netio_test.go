package netio_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/netio"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// childEnv makes the test program a child for the tests of Process.
const childEnv = "NETIO_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		os.Exit(child(mode))
	}
	goleak.VerifyTestMain(m)
}

// child answers lines of its input until it ends.
func child(mode string) int {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if mode == "stubborn" {
		fmt.Fprintln(os.Stdout, "ready")
		<-make(chan struct{})
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	fmt.Fprintln(os.Stdout, "ready")
	for {
		select {
		case <-interrupts:
			fmt.Fprintln(os.Stdout, "interrupted")
			return 0
		case line, ok := <-lines:
			switch {
			case !ok:
				fmt.Fprintln(os.Stdout, "bye")
				return 0
			case line == "fail":
				return 7
			}
			fmt.Fprintln(os.Stdout, "out "+line)
			fmt.Fprintln(os.Stderr, "err "+line)
		}
	}
}

// expect waits for the next event and compares its kind and bytes.
func expect(t testing.TB, p *actortest.Probe[netio.Event], kind netio.Kind, data string) netio.Event {
	t.Helper()
	e := p.Next()
	if e.Kind != kind || string(e.Bytes) != data {
		t.Fatalf("event %s %q (%v), want %s %q", e.Kind, e.Bytes, e.Err, kind, data)
	}
	return e
}

func where(t testing.TB, l actor.Ref[netio.Address]) string {
	t.Helper()
	return actortest.Ask(t, l, func(r actor.Reply[net.Addr]) netio.Address { return netio.Address{Reply: r} }).String()
}

// serve starts a listener whose connections send their events to p.
func serve(t testing.TB, node *actor.Node, p *actortest.Probe[netio.Event], change func(*netio.Listener)) string {
	t.Helper()
	l := &netio.Listener{
		Address: "127.0.0.1:0", Framing: netio.Lines(),
		Accept: func(*actor.Context[netio.Address], net.Addr) (actor.Ref[netio.Event], error) { return p.Ref(), nil },
	}
	if change != nil {
		change(l)
	}
	return where(t, actortest.Spawn(t, node, l, nil))
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, actortest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(actortest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestConnectionsTalkBothWays(t *testing.T) {
	node := actortest.Node(t)
	server, client := actortest.NewProbe[netio.Event](t, node), actortest.NewProbe[netio.Event](t, node)
	address := serve(t, node, server, nil)
	c := actortest.Spawn(t, node, &netio.Conn{Dial: netio.Dial("tcp", address), To: client.Ref(), Framing: netio.Lines()}, nil)
	down := actortest.Watch(t, node, c)

	if e := expect(t, client, netio.Opened, ""); e.Peer != address || e.From != c {
		t.Errorf("opened %+v, want peer %s from the actor itself", e, address)
	}
	conn := expect(t, server, netio.Opened, "").From
	actortest.Send(t, c, netio.Command{Bytes: []byte("one\ntw")}, netio.Command{Bytes: []byte("o\n\nthree")})
	expect(t, server, netio.Data, "one")
	expect(t, server, netio.Data, "two")
	expect(t, server, netio.Data, "")
	actortest.Ask(t, c, func(r actor.Reply[struct{}]) netio.Command { return netio.Command{Close: true, Done: r} })
	expect(t, server, netio.Data, "three")
	if e := expect(t, server, netio.Closed, ""); e.Err != nil {
		t.Errorf("closed with %v", e.Err)
	}
	actortest.ExpectEnd(t, conn, actor.Normal)
	expect(t, client, netio.Closed, "")
	if d := down.Next(); d.Reason != actor.Normal {
		t.Errorf("the client ended for %v, want normal", d.Reason)
	}
}

func TestServerAnswersAndHangsUp(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	conn := dial(t, serve(t, node, p, func(l *netio.Listener) { l.Framing = netio.Framing{} }))
	from := expect(t, p, netio.Opened, "").From
	if _, err := conn.Write([]byte("raw bytes")); err != nil {
		t.Fatal(err)
	}
	expect(t, p, netio.Data, "raw bytes")
	actortest.Send(t, from, netio.Command{Bytes: []byte("answer")})
	from.Drain()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "answer" {
		t.Errorf("got %q, %v, want the answer before the end", got, err)
	}
	expect(t, p, netio.Closed, "")
}

func TestFramesThatAreTooLongEndTheConnection(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	conn := dial(t, serve(t, node, p, func(l *netio.Listener) { l.Framing.Max = 8 }))
	expect(t, p, netio.Opened, "")
	if _, err := conn.Write([]byte("12345678\r\n123456789\n")); err != nil {
		t.Fatal(err)
	}
	expect(t, p, netio.Data, "12345678")
	if e := expect(t, p, netio.Closed, ""); !errors.Is(e.Err, bufio.ErrTooLong) {
		t.Errorf("closed with %v, want too long", e.Err)
	}
}

// A panic of a function of the program is the exit reason of the actor and does not end the program.
func TestPanicsEndTheActorOnly(t *testing.T) {
	node := actortest.Node(t)
	for name, change := range map[string]func(l *netio.Listener, p *actortest.Probe[netio.Event]){
		"split": func(l *netio.Listener, _ *actortest.Probe[netio.Event]) {
			l.Framing.Split = func([]byte, bool) (int, []byte, error) { panic("split") }
		},
		"adapt": func(l *netio.Listener, p *actortest.Probe[netio.Event]) {
			to := actor.Adapt(p.Ref(), func(e netio.Event) netio.Event {
				if e.Kind == netio.Data {
					panic("adapt")
				}
				return e
			})
			l.Accept = func(*actor.Context[netio.Address], net.Addr) (actor.Ref[netio.Event], error) { return to, nil }
		},
	} {
		p := actortest.NewProbe[netio.Event](t, node)
		conn := dial(t, serve(t, node, p, func(l *netio.Listener) { change(l, p) }))
		expect(t, p, netio.Opened, "")
		if _, err := conn.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		var panicked *actor.PanicError
		if e := expect(t, p, netio.Closed, ""); !errors.As(e.Err, &panicked) || panicked.Value != name {
			t.Errorf("%s: closed with %v, want its panic", name, e.Err)
		}
	}
}

// However it ends, the connection is closed: the peer sees it.
func TestWhateverEndsAnActorClosesItsConnection(t *testing.T) {
	node := actortest.Node(t)
	for name, end := range map[string]func(actor.Ref[netio.Command]){
		"stop": func(r actor.Ref[netio.Command]) { r.Stop() },
		"kill": func(r actor.Ref[netio.Command]) { r.Kill() },
	} {
		p := actortest.NewProbe[netio.Event](t, node)
		conn := dial(t, serve(t, node, p, nil))
		from := expect(t, p, netio.Opened, "").From
		end(from)
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the connection is open", name)
		}
		if e := expect(t, p, netio.Closed, ""); e.Err != nil {
			t.Errorf("%s: closed with %v", name, e.Err)
		}
	}
}

func TestListenerHoldsConnectionsBack(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	address := serve(t, node, p, func(l *netio.Listener) { l.Max = 2 })
	for range 4 {
		dial(t, address)
	}
	first := expect(t, p, netio.Opened, "").From
	expect(t, p, netio.Opened, "")
	p.ExpectNone(20 * time.Millisecond)
	first.Stop()
	expect(t, p, netio.Closed, "")
	expect(t, p, netio.Opened, "")
	p.ExpectNone(20 * time.Millisecond)
}

func TestListenerCanRefuse(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	address := serve(t, node, p, func(l *netio.Listener) {
		l.Accept = func(*actor.Context[netio.Address], net.Addr) (actor.Ref[netio.Event], error) {
			return actor.Ref[netio.Event]{}, errors.New("not today")
		}
	})
	for range 2 {
		if _, err := dial(t, address).Read(make([]byte, 1)); err == nil {
			t.Error("the connection is open")
		}
	}
}

// writing is a connection that tells when a write has begun.
type writing struct {
	net.Conn
	begun chan struct{}
}

func (w *writing) Write(b []byte) (int, error) {
	close(w.begun)
	return w.Conn.Write(b)
}

// A write that fails because the actor is asked to end is answered, and is not the exit reason.
func TestWriteDuringTheEndIsAnswered(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[netio.Event](t, node)
		here, there := net.Pipe()
		defer there.Close()
		w := &writing{here, make(chan struct{})}
		c := actortest.Spawn(t, node, &netio.Conn{
			Dial: func(context.Context) (net.Conn, error) { return w, nil }, To: p.Ref(), WriteTimeout: time.Hour,
		}, nil)
		down := actortest.Watch(t, node, c)
		go func() {
			<-w.begun
			c.Stop()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := actor.Ask(ctx, c, func(r actor.Reply[struct{}]) netio.Command {
			return netio.Command{Bytes: []byte("x"), Done: r} // nobody reads
		})
		if !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("the write: %v, want Closed", err)
		}
		if d := down.Next(); d.Reason != actor.Shutdown {
			t.Errorf("ended for %v, want shutdown", d.Reason)
		}
	})
}

// While the receiver does not take events, nothing is read; nothing is lost either.
func TestFullReceiverHoldsUpThePeer(t *testing.T) {
	node := actortest.Node(t)
	release := make(chan struct{})
	total := 0
	all := make(chan int, 1)
	slow := actortest.Spawn(t, node, actor.Func[netio.Event](func(_ *actor.Context[netio.Event], e netio.Event) error {
		<-release
		total += len(e.Bytes)
		if e.Kind == netio.Closed {
			all <- total
		}
		return nil
	}), &actor.Options{Mailbox: 2, Overflow: actor.Block})
	conn := dial(t, serve(t, node, nil, func(l *netio.Listener) {
		l.Framing = netio.Framing{}
		l.Accept = func(*actor.Context[netio.Address], net.Addr) (actor.Ref[netio.Event], error) { return slow, nil }
	}))
	if err := conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	sent, err := conn.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("wrote %d bytes, %v: want it to be held up", sent, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if got := <-all; got != sent {
		t.Errorf("%d bytes arrived of %d", got, sent)
	}
}

// A supervisor dials again when the connection breaks.
func TestSupervisedConnectionIsDialedAgain(t *testing.T) {
	node := actortest.Node(t)
	server, client := actortest.NewProbe[netio.Event](t, node), actortest.NewProbe[netio.Event](t, node)
	address := serve(t, node, server, nil)
	child := actor.NewChild("up", func() *netio.Conn {
		return &netio.Conn{Dial: netio.Dial("tcp", address), To: client.Ref(), Framing: netio.Lines()}
	}, nil)
	if _, err := actor.Supervise(node, nil, child); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := expect(t, client, netio.Opened, "").From
		actortest.Send(t, c, netio.Command{Bytes: []byte("hello\n")})
		// Events of the old and the new connection have no order among them.
		conn := server.Find(func(e netio.Event) bool { return e.Kind == netio.Data }).From
		conn.Kill()
		expect(t, client, netio.Closed, "")
	}
}

func TestActorsThatCannotStart(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	_, noDial := actor.Spawn(node, &netio.Conn{To: p.Ref()}, nil)
	_, noReceiver := actor.Spawn(node, &netio.Conn{Dial: netio.Dial("tcp", "127.0.0.1:1")}, nil)
	_, noAccept := actor.Spawn(node, &netio.Listener{}, nil)
	_, noHandler := actor.Spawn(node, &netio.Server{}, nil)
	_, noPeer := actor.Spawn(node, &netio.Socket{}, nil)
	_, noFrame := actor.Spawn(node, &netio.Process{Path: os.Args[0], To: p.Ref(), Framing: netio.Framing{Max: -1}}, nil)
	for i, err := range []error{noDial, noReceiver, noAccept, noHandler, noPeer, noFrame} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%d: %v, want Invalid", i, err)
		}
	}
	if _, err := actor.Spawn(node, &netio.Process{Path: "/no/such/program", To: p.Ref()}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process: %v", err)
	}
	boom := errors.New("boom")
	bad := func(context.Context) (net.Conn, error) { return nil, boom }
	if _, err := actor.Spawn(node, &netio.Conn{Dial: bad, To: p.Ref()}, nil); !errors.Is(err, boom) {
		t.Errorf("conn: %v, want boom", err)
	}
}

func TestSocketsExchangeDatagrams(t *testing.T) {
	node := actortest.Node(t)
	open := func() (actor.Ref[netio.Datagram], *actortest.Probe[netio.Datagram], netip.AddrPort) {
		p := actortest.NewProbe[netio.Datagram](t, node)
		s := actortest.Spawn(t, node, &netio.Socket{Address: "127.0.0.1:0", To: p.Ref()}, nil)
		addr := actortest.Ask(t, s, func(r actor.Reply[net.Addr]) netio.Datagram { return netio.Datagram{Where: r} })
		return s, p, netip.MustParseAddrPort(addr.String())
	}
	a, gotA, addrA := open()
	b, gotB, addrB := open()
	actortest.Send(t, a, netio.Datagram{Peer: addrB, Bytes: []byte("ping")})
	if d := gotB.Next(); d.Peer != addrA || string(d.Bytes) != "ping" {
		t.Errorf("b got %+v, want ping from %s", d, addrA)
	}
	actortest.Send(t, b, netio.Datagram{Peer: addrA, Bytes: []byte("pong")})
	gotA.Expect(netio.Datagram{Peer: addrB, Bytes: []byte("pong")})
	actortest.Send(t, a, netio.Datagram{Peer: addrB, Bytes: make([]byte, 100_000)}) // cannot be sent
	actortest.Send(t, a, netio.Datagram{Peer: addrB, Bytes: []byte("still here")})
	gotB.Expect(netio.Datagram{Peer: addrA, Bytes: []byte("still here")})
}

func process(mode string, p *actortest.Probe[netio.Event]) *netio.Process {
	grace := testkit.Patience
	if mode == "stubborn" { // which waits for its end
		grace = 50 * time.Millisecond
	}
	return &netio.Process{
		Path: os.Args[0], Env: append(os.Environ(), childEnv+"="+mode), To: p.Ref(),
		Framing: netio.Lines(), Grace: grace,
	}
}

func TestProcessReadsAndWrites(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	r := actortest.Spawn(t, node, process("echo", p), nil)
	down := actortest.Watch(t, node, r)
	expect(t, p, netio.Opened, "")
	expect(t, p, netio.Data, "ready")
	actortest.Send(t, r, netio.Command{Bytes: []byte("a\n")})
	one, two := p.Next(), p.Next() // the two outputs have no order among them
	if one.Kind == netio.ErrorData {
		one, two = two, one
	}
	if one.Kind != netio.Data || string(one.Bytes) != "out a" || two.Kind != netio.ErrorData || string(two.Bytes) != "err a" {
		t.Errorf("events %s %q and %s %q", one.Kind, one.Bytes, two.Kind, two.Bytes)
	}
	actortest.Send(t, r, netio.Command{Close: true})
	expect(t, p, netio.Data, "bye")
	expect(t, p, netio.Closed, "")
	if d := down.Next(); d.Reason != actor.Normal {
		t.Errorf("ended for %v, want normal", d.Reason)
	}
}

func TestProcessThatFailsIsAReason(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	r := actortest.Spawn(t, node, process("echo", p), nil)
	down := actortest.Watch(t, node, r)
	actortest.Send(t, r, netio.Command{Bytes: []byte("fail\n")})
	var exit *exec.ExitError
	if d := down.Next(); !errors.As(d.Reason, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended for %v, want exit status 7", d.Reason)
	}
	if e := p.Find(func(e netio.Event) bool { return e.Kind == netio.Closed }); !errors.As(e.Err, &exit) {
		t.Errorf("closed with %v", e.Err)
	}
}

func TestProcessIsInterruptedThenKilled(t *testing.T) {
	node := actortest.Node(t)
	for mode, last := range map[string]string{"echo": "interrupted", "stubborn": "ready"} {
		p := actortest.NewProbe[netio.Event](t, node)
		r := actortest.Spawn(t, node, process(mode, p), nil)
		expect(t, p, netio.Opened, "")
		expect(t, p, netio.Data, "ready")
		r.Stop()
		actortest.ExpectEnd(t, r, actor.Shutdown)
		if mode == "echo" {
			// Output that it wrote after the interrupt still comes.
			expect(t, p, netio.Data, last)
		}
		expect(t, p, netio.Closed, "")
	}
}

func TestProcessTakesSignals(t *testing.T) {
	node := actortest.Node(t)
	p := actortest.NewProbe[netio.Event](t, node)
	r := actortest.Spawn(t, node, process("echo", p), nil)
	expect(t, p, netio.Opened, "")
	expect(t, p, netio.Data, "ready")
	actortest.Send(t, r, netio.Command{Signal: os.Interrupt})
	expect(t, p, netio.Data, "interrupted")
	actortest.ExpectEnd(t, r, actor.Normal)
}

func TestEveryKindHasAName(t *testing.T) {
	var names []string
	for k := netio.Opened; k <= netio.Closed+1; k++ {
		names = append(names, k.String())
	}
	if got := strings.Join(names, ","); got != "opened,data,error data,closed,unknown kind" {
		t.Errorf("names %s", got)
	}
}

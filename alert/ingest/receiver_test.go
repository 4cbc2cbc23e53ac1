package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/ingest/syslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// receiver is a running receiver with a socket of each kind.
type receiver struct {
	*ingest.SyslogReceiver
	udp, tcp string
	close    func() error
}

func receive(t testing.TB, sink ingest.Sink, o *ingest.SyslogOptions) *receiver {
	t.Helper()
	r, err := ingest.OpenSyslog(sink, o)
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	packets := &servedUDP{UDPConn: udp.(*net.UDPConn), served: make(chan struct{})}
	connections := &servedTCP{TCPListener: tcp.(*net.TCPListener), served: make(chan struct{})}
	go func() { ended <- r.ServeUDP(packets) }()
	go func() { ended <- r.ServeTCP(connections) }()
	// Both serve before the test may close them: what is sent to a socket that the receiver
	// was never given is lost.
	<-packets.served
	<-connections.served
	out := &receiver{SyslogReceiver: r, udp: udp.LocalAddr().String(), tcp: tcp.Addr().String()}
	out.close = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := r.Close(ctx)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		return err
	})
	t.Cleanup(func() {
		if err := out.close(); err != nil {
			t.Error(err)
		}
	})
	return out
}

// servedUDP says when a receiver reads from it.
type servedUDP struct {
	*net.UDPConn
	once   sync.Once
	served chan struct{}
}

func (c *servedUDP) ReadFrom(p []byte) (int, net.Addr, error) {
	c.once.Do(func() { close(c.served) })
	return c.UDPConn.ReadFrom(p)
}

// servedTCP says when a receiver accepts from it.
type servedTCP struct {
	*net.TCPListener
	once   sync.Once
	served chan struct{}
}

func (l *servedTCP) Accept() (net.Conn, error) {
	l.once.Do(func() { close(l.served) })
	return l.TCPListener.Accept()
}

func dial(t testing.TB, network, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestSyslogBecomesAlerts(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 10, 0, time.UTC)
	s, sink := server(t, func() time.Time { return at })
	r := receive(t, sink, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Now: func() time.Time { return at }}, Location: time.UTC})
	u, c := dial(t, "udp", r.udp), dial(t, "tcp", r.tcp)
	send(t, u, `<165>1 2026-02-03T04:05:06Z db-1 backup 42 LATE [job@32473 size="12" unit="GB"] late by 5 minutes`)
	testkit.Eventually(t, "the datagram", func() bool { return r.Counters().Written == 1 })
	send(t, c, "<11>Feb  3 04:05:07 web-1 nginx[7]: worker 1 died\n")
	send(t, c, "49 <11>Feb  3 04:05:08 web-1 nginx[7]: worker 2 died<13>plain\n")
	testkit.Eventually(t, "all messages", func() bool { return r.Counters().Written == 4 })
	want(t, query(t, s, "select Identifier, Node, NodeAlias, Manager, Agent, AlertGroup, AlertKey, Severity, Type, Summary, FirstOccurrence, LastOccurrence, Tally, ExpireTime from alerts.status order by Serial"),
		"syslog:db-1:backup:LATE:notice|db-1|127.0.0.1|syslog|backup|backup|LATE|1|13|late by 5 minutes|1770091506|1770091510|1|86400",
		"syslog:web-1:nginx:worker # died:err|web-1|127.0.0.1|syslog|nginx|nginx|worker # died|4|1|worker 2 died|1770091507|1770091510|2|86400",
		"syslog:127.0.0.1:user:plain:notice|127.0.0.1|127.0.0.1|syslog|user|user|plain|1|13|plain|1770091510|1770091510|1|86400")
	got := query(t, s, "select ExtendedAttr from alerts.status where Node = 'db-1'")[0]
	for _, pair := range []string{`sd.job@32473.size="12"`, `sd.job@32473.unit="GB"`, `procid="42"`, `format="rfc5424"`} {
		if !strings.Contains(got, pair) {
			t.Errorf("no %s in %s", pair, got)
		}
	}
	counts := r.Counters()
	if counts.Received != 4 || counts.Malformed != 1 || counts.Connections != 1 || counts.Waiting != 0 || counts.Bytes == 0 {
		t.Errorf("%+v", counts)
	}
}

// TestEqualMessagesAreAllCounted, whichever connection brings them, in one second and after the
// clock has stepped back.
func TestEqualMessagesAreAllCounted(t *testing.T) {
	s, sink := server(t, nil)
	var clock atomic.Int64
	clock.Store(1770091510)
	r := receive(t, sink, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Now: func() time.Time { return time.Unix(clock.Load(), 0) }}})
	const each = 500
	var senders sync.WaitGroup
	for range 2 {
		c := dial(t, "tcp", r.tcp)
		senders.Go(func() {
			if _, err := c.Write([]byte(strings.Repeat("<11>1 - h a - - - x\n", each))); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	testkit.Eventually(t, "all are written", func() bool { return r.Counters().Written == 2*each })
	clock.Add(-600)
	send(t, dial(t, "tcp", r.tcp), "<11>1 - h a - - - x\n")
	testkit.Eventually(t, "the last is written", func() bool { return r.Counters().Written == 2*each+1 })
	want(t, query(t, s, "select Tally, LastOccurrence from alerts.status"), fmt.Sprintf("%d|1770091510", 2*each+1))
}

// TestRepeatedParameters of structured data keep all their values, as RFC 5424, 7.2.1, has them.
func TestRepeatedParameters(t *testing.T) {
	m := syslog.Parse([]byte(`<11>1 - h a - - [origin ip="1" x="y" ip="2"][other ip="3"] text`), nil)
	e := ingest.SyslogEvent(&m)
	for name, want := range map[string]string{"sd.origin.ip": "1,2", "sd.origin.x": "y", "sd.other.ip": "3"} {
		if got, _ := e.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestManyParameters: a message with more parameters than an event has fields still says who sent it.
func TestManyParameters(t *testing.T) {
	sink := &memory{}
	r := receive(t, sink, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Mapping: mapping(t, ingest.Syslog, "syslog: {columns: {Location: '${transport}'}}")}})
	var text strings.Builder
	text.WriteString("<11>1 - h a - - [x")
	for i := range ingest.MaxFields {
		fmt.Fprintf(&text, ` p%d="v"`, i)
	}
	text.WriteString("] text\n")
	send(t, dial(t, "tcp", r.tcp), text.String())
	testkit.Eventually(t, "the message", func() bool { return r.Counters().Written == 1 })
	want(t, sink.all("NodeAlias"), "127.0.0.1")
	want(t, sink.all("Location"), "tcp")
}

// slowSink is a sink whose inserts wait until others may be done together.
type slowSink struct {
	ingest.Sink
	ready func() bool
}

// InsertRows implements ingest.Sink.
func (s *slowSink) InsertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	for !s.ready() && ctx.Err() == nil {
		testkit.Pause(ctx, time.Millisecond)
	}
	return s.Sink.InsertRows(ctx, table, columns, rows, updating...)
}

// TestManySenders: every message of every connection arrives, in few inserts if the sink is
// slower than the senders.
func TestManySenders(t *testing.T) {
	s, sink := server(t, nil)
	const queue, senders, each = 50, 20, 100
	var opened atomic.Pointer[receiver]
	slow := &slowSink{sink, func() bool {
		c := opened.Load().Counters()
		return c.Waiting >= queue || c.Received == senders*each
	}}
	r := receive(t, slow, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Queue: queue, Mapping: mapping(t, ingest.Syslog, "syslog: {columns: {Identifier: '${message}'}}")}})
	opened.Store(r) // before anything is sent
	var wg sync.WaitGroup
	for i := range senders {
		c := dial(t, "tcp", r.tcp)
		wg.Go(func() {
			for j := range each {
				m := fmt.Sprintf("<11>1 - h%d a - - - message %d %d", i, i, j)
				if i%2 == 0 {
					m = fmt.Sprintf("%d %s", len(m), m)
				} else {
					m += "\n"
				}
				if _, err := c.Write([]byte(m)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := r.close(); err != nil { // writes what is waiting
		t.Fatal(err)
	}
	want(t, query(t, s, "select count(*) from alerts.status"), fmt.Sprint(senders*each))
	if c := r.Counters(); c.Written != senders*each || c.Batches > senders*each/2 || c.Lost != 0 || c.Connections != 0 {
		t.Errorf("%+v", c)
	}
}

// TestHostileSenders: nothing that is sent harms those who send alerts.
func TestHostileSenders(t *testing.T) {
	sink := &memory{}
	r := receive(t, sink, &ingest.SyslogOptions{MaxMessage: 480, FrameTimeout: 20 * time.Millisecond, MaxConnections: 30})
	random := rand.New(rand.NewPCG(1, 2))
	junk := make([]byte, 4000)
	for i := range junk {
		junk[i] = byte(random.Uint32())
	}
	u := dial(t, "udp", r.udp)
	for i := range 50 {
		send(t, u, string(junk[i*7:i*7+i*20]))
	}
	for _, text := range []string{"999999999999 x", "10 abc", string(junk), "<1", "16000000 x", strings.Repeat("<", 2000)} {
		c := dial(t, "tcp", r.tcp)
		send(t, c, text)
		if text[0] >= '1' && text[0] <= '9' { // they promise what never comes
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("an answer")
			}
		}
	}
	good := dial(t, "tcp", r.tcp)
	send(t, good, "<11>1 - good a - - - still here\n<11>1 - good a - - - "+strings.Repeat("x", 1000)+"\n")
	testkit.Eventually(t, "the good messages", func() bool {
		return strings.Count(strings.Join(sink.all("Node"), " "), "good") == 2
	})
	if c := r.Counters(); c.Truncated == 0 || c.ConnectionsBroken < 3 || c.Malformed == 0 {
		t.Errorf("%+v", c)
	}
	for range 40 {
		dial(t, "tcp", r.tcp)
	}
	testkit.Eventually(t, "connections are refused", func() bool { return r.Counters().ConnectionsRefused > 0 })
}

// TestRelaysAndSendersAreOneAlert sends one message in the forms in which logger, rsyslog
// and syslog-ng send it: with and without the blank before the text, with a byte order
// mark, with structured data.
func TestRelaysAndSendersAreOneAlert(t *testing.T) {
	s, sink := server(t, time.Now)
	r := receive(t, sink, nil)
	forms := []string{
		"<11>Nov 22 17:00:00 web1 nginx[7]: worker 12 died",                                                    // logger, syslog-ng
		"<11>Nov 22 17:00:00 web1 nginx: worker 13 died",                                                       // without a process
		"<11>2026-11-22T17:00:00.123456+00:00 web1 nginx[7]: worker 14 died",                                   // RSYSLOG_ForwardFormat
		"<11>1 2026-11-22T17:00:00.123456+00:00 web1 nginx - - -  worker 15 died\n",                            // RSYSLOG_SyslogProtocol23Format, of logger
		"<11>1 2026-11-22T17:00:00.123456+00:00 web1 nginx 7 - -  worker 16 died\n",                            // the same, with a process
		"<11>1 2026-11-22T17:00:00+00:00 web1 nginx 7 - - \xef\xbb\xbfworker 17 died",                          // syslog-ng
		"<11>1 2026-11-22T17:00:00+00:00 web1 nginx 7 - - \xef\xbb\xbf worker 18 died \r",                      // with blanks
		`<11>1 2026-11-22T17:00:00+00:00 web1 nginx 7 - [timeQuality tzKnown="1" isSynced="0"] worker 19 died`, // logger --rfc5424
	}
	conn := dial(t, "tcp", r.tcp)
	for i, text := range forms {
		if i%2 == 0 {
			text = fmt.Sprintf("%d %s", len(text), text)
		} else {
			text = strings.TrimSuffix(text, "\n") + "\n"
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all are written", func() bool { return r.Counters().Written == int64(len(forms)) })
	want(t, query(t, s, "select Identifier, Summary, Tally from alerts.status"),
		fmt.Sprintf("syslog:web1:nginx:worker # died:err|worker 19 died|%d", len(forms)))
}

// TestNoHTTP: what a web page makes a browser send to the port for syslog becomes no alert.
func TestNoHTTP(t *testing.T) {
	sink := &memory{}
	r := receive(t, sink, nil)
	streams := []string{
		"POST / HTTP/1.1\r\nHost: localhost:514\r\nContent-Type: text/plain\r\n\r\n<11>Nov 22 17:00:00 web1 app: forged\n",
		"GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nX: y\r\n\r\n<11>Nov 22 17:00:00 web1 app: forged\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"100 / HTTP/1.1\r\nHost: " + strings.Repeat("x", 100) + "\r\n\r\n<11>forged\n",
		"OPTIONS http://localhost:514/ HTTP/1.1\r\n\r\n",
		"\x16\x03\x01\x02\x00\n<11>forged\n",
	}
	for i, text := range streams {
		conn := dial(t, "tcp", r.tcp)
		_, _ = conn.Write([]byte(text)) // the receiver may have closed it already
		testkit.Eventually(t, "the connection is closed", func() bool { return r.Counters().ConnectionsBroken == int64(i+1) })
	}
	conn := dial(t, "tcp", r.tcp)
	if _, err := conn.Write([]byte("<11>Nov 22 17:00:00 web1 httpd: GET / HTTP/1.1\nGET / HTTP/1.1\nfoo /bar done\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "messages about HTTP are written", func() bool { return r.Counters().Written == 3 })
	want(t, sink.all("Summary"), "GET / HTTP/1.1", "GET / HTTP/1.1", "foo /bar done")
	if n := r.Counters().Received; n != 3 {
		t.Errorf("%d messages were received", n)
	}
}

// TestASinkThatFails holds TCP senders up, costs datagrams when the queue is full, and
// loses nothing that was taken.
func TestASinkThatFails(t *testing.T) {
	sink := &memory{fail: func([][]any) error { return errors.New("away") }}
	r := receive(t, sink, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Queue: 5, BatchRows: 2}})
	u := dial(t, "udp", r.udp)
	for n := 0; r.Counters().Overflow == 0; n++ {
		send(t, u, "<11>1 - udp a - M"+fmt.Sprint(n)+" - x")
	}
	c := dial(t, "tcp", r.tcp)
	for i := range 10 {
		send(t, c, fmt.Sprintf("<11>1 - tcp a - M%d - x\n", i))
	}
	if n := len(sink.all("Node")); n != 0 {
		t.Errorf("%d rows", n)
	}
	testkit.Eventually(t, "it is tried again", func() bool { return r.Counters().Retries > 1 })
	sink.setFail(nil)
	testkit.Eventually(t, "all of TCP arrives", func() bool { return strings.Count(strings.Join(sink.all("Node"), " "), "tcp") == 10 })
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if c := r.Counters(); c.Lost != 0 || c.Received != c.Written+c.Overflow {
		t.Errorf("%+v", c)
	}
}

func TestGivingUp(t *testing.T) {
	sink := &memory{fail: func([][]any) error { return errors.New("away") }}
	r, err := ingest.OpenSyslog(sink, nil)
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.ServeUDP(udp) }()
	send(t, dial(t, "udp", udp.LocalAddr().String()), "<11>x")
	testkit.Eventually(t, "the message", func() bool { return r.Counters().Waiting == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); !errors.Is(err, mainstem.ErrUnavailable) || r.Counters().Lost != 1 {
		t.Errorf("%v, %+v", err, r.Counters())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ServeTCP(l); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	for _, o := range []ingest.SyslogOptions{{MaxMessage: 10}, {MaxConnections: -1}, {ReceiverOptions: ingest.ReceiverOptions{Queue: -1}}, {ReceiverOptions: ingest.ReceiverOptions{BatchRows: 1e9}}} {
		if _, err := ingest.OpenSyslog(sink, &o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestADroppedColumn costs the messages that have something in it, and only what they have there
// if the receiver knows the columns of the server.
func TestADroppedColumn(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns bool
		file    string
		written []string
	}{
		{"columns of the standard tables", false, "syslog: {columns: {Customer: '${procid}'}}", []string{"without"}},
		{"columns of the server", true, "syslog: {columns: {Customer: '${procid}'}, updating: Customer}", []string{"with", "without"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sink := server(t, nil)
			o := &ingest.MappingOptions{}
			if c.columns {
				o.Columns = ingest.ServerColumns(s)
			}
			m, err := ingest.ParseMappings("test.yaml", []byte(c.file), o)
			if err != nil {
				t.Fatal(err)
			}
			r := receive(t, sink, &ingest.SyslogOptions{ReceiverOptions: ingest.ReceiverOptions{Mapping: m.For(ingest.Syslog)}})
			if _, err := s.Exec(t.Context(), "alter table alerts.status drop column Customer"); err != nil {
				t.Fatal(err)
			}
			send(t, dial(t, "tcp", r.tcp), "<11>1 - with a 42 - - x\n<11>1 - without a - - - x\n")
			testkit.Eventually(t, "both are done with", func() bool {
				n := r.Counters()
				return n.Received == 2 && n.Waiting == 0
			})
			if err := r.close(); err != nil {
				t.Error(err)
			}
			want(t, query(t, s, "select Node from alerts.status order by Node"), c.written...)
			if n := r.Counters(); n.Written != int64(len(c.written)) || n.Written+n.Rejected != 2 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestRefusedMessages: the sink refuses one row of many.
func TestRefusedMessages(t *testing.T) {
	sink := &memory{}
	sink.fail = func(rows [][]any) error {
		for _, row := range rows {
			for _, v := range row {
				if v == "poison" {
					return &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("no")}
				}
			}
		}
		return nil
	}
	r := receive(t, sink, nil)
	c := dial(t, "tcp", r.tcp)
	var text strings.Builder
	for i := range 50 {
		host := fmt.Sprint("h", i)
		if i == 20 {
			host = "poison"
		}
		fmt.Fprintf(&text, "<11>1 - %s a - - - x\n", host)
	}
	send(t, c, text.String())
	testkit.Eventually(t, "the others", func() bool { return r.Counters().Written == 49 && r.Counters().Rejected == 1 })
}

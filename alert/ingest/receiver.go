package ingest

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/alert/ingest/syslog"
	"github.com/mainstemdev/mainstem/internal/accept"
)

// SyslogReceiver takes syslog messages from any number of senders and makes them
// alerts. Senders over TCP wait while the sink is slow; datagrams that come then are
// dropped, and counted, when the queue is full.
type SyslogReceiver struct {
	o     SyslogOptions
	parse syslog.Options
	w     *writer
	count counting

	ctx  context.Context // done when reading ends
	stop context.CancelFunc
	wg   sync.WaitGroup // what reads

	mu struct {
		sync.Mutex
		closed bool
		open   map[io.Closer]struct{} // listeners, sockets and connections
	}
}

// OpenSyslog returns a receiver that writes to sink. Give it sockets with ServeUDP and
// ServeTCP, and close it before the sink.
func OpenSyslog(sink Sink, o *SyslogOptions) (*SyslogReceiver, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	full, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &SyslogReceiver{o: full}
	r.parse = syslog.Options{Location: r.o.Location, Now: r.o.Now}
	r.mu.open = map[io.Closer]struct{}{}
	r.w = newWriter(sink, &r.o.ReceiverOptions, &r.count)
	r.ctx, r.stop = context.WithCancel(r.w.ctx)
	return r, nil
}

// Counters returns what the receiver has done so far.
func (r *SyslogReceiver) Counters() Counters { return r.count.read() }

// Close stops listening, takes what had come to the system by then, writes it, and
// returns: connections that were established and not yet accepted, and what was sent on
// all of them. A sender that does not pause is cut off after drainLimit. When ctx is
// done what could not be written until then is given up, which is an error. Closing
// twice is allowed.
func (r *SyslogReceiver) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.mu.closed {
		r.mu.closed = true
		r.stop() // before readers are woken: they look at it
	}
	for c := range r.mu.open {
		wake(c)
	}
	r.mu.Unlock()
	// Readers that wait for room in the queue go on while it is emptied.
	stop := context.AfterFunc(ctx, r.w.giveUp)
	r.wg.Wait()
	stop()
	return r.w.close(ctx)
}

// own notes a socket to close; false if the receiver is closed already.
func (r *SyslogReceiver) own(c io.Closer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return false
	}
	r.mu.open[c] = struct{}{}
	r.wg.Add(1)
	return true
}

// adopt notes a connection to close, also while the receiver drains: its listener is
// still owned, so that Close waits.
func (r *SyslogReceiver) adopt(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.open[c] = struct{}{}
	r.wg.Add(1)
}

func (r *SyslogReceiver) disown(c io.Closer) {
	_ = c.Close() // it may be closed already
	r.mu.Lock()
	delete(r.mu.open, c)
	r.mu.Unlock()
	r.wg.Done()
}

// ServeUDP takes datagrams from conn, each a message, until conn fails or the receiver
// is closed; then it returns nil. The socket belongs to the receiver from now on. Several
// goroutines may serve sockets, also the same one. A call that begins after Close closes
// conn, takes nothing from it, and is ErrClosed.
func (r *SyslogReceiver) ServeUDP(conn net.PacketConn) error {
	if !r.own(conn) {
		_ = conn.Close()
		return closed()
	}
	defer r.disown(conn)
	if u, ok := conn.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = u.SetReadBuffer(r.o.ReadBuffer) // as much as the system gives
	}
	buf := make([]byte, r.o.MaxMessage+1)
	d := r.newDrain()
	for {
		var from net.Addr
		n, err := d.do(conn.SetReadDeadline, func() (n int, err error) {
			n, from, err = conn.ReadFrom(buf)
			return n, err
		})
		if err != nil {
			if r.ctx.Err() != nil {
				return nil
			}
			if passing(err) {
				continue
			}
			return err
		}
		r.count.bytes.Add(int64(n))
		if n > r.o.MaxMessage {
			r.count.truncated.Add(1)
			n = r.o.MaxMessage
		}
		if d := r.draft(buf[:n], from, "udp"); d != nil && !r.w.offer(d) {
			r.count.overflow.Add(1)
		}
	}
}

// passing reports whether a socket may go on after err: another host has refused what
// was sent, or a deadline that somebody else set.
func passing(err error) bool {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return true
	}
	return strings.Contains(err.Error(), "connection refused")
}

// ServeTCP accepts connections from l and takes messages from them until l fails or the
// receiver is closed; then it returns nil. The listener belongs to the receiver from now
// on. For TLS give it one of package crypto/tls. A listener without SetDeadline loses the
// connections that it has not yet accepted when the receiver closes. A call that begins
// after Close, as in a goroutine that was started just before, loses them too: it closes l
// and is ErrClosed.
func (r *SyslogReceiver) ServeTCP(l net.Listener) error {
	if !r.own(l) {
		_ = l.Close()
		return closed()
	}
	defer r.disown(l)
	d := r.newDrain()
	next := func() (net.Conn, error) { return d.accept(l) }
	failed := func(_ int, err error) { r.o.Logger.Warn("ingest: a connection could not be accepted", "error", err) }
	for {
		conn, err := accept.Next(r.ctx, next, failed)
		if err != nil {
			if r.ctx.Err() != nil {
				return nil
			}
			return err
		}
		if r.count.connections.Add(1) > int64(r.o.MaxConnections) {
			r.count.connections.Add(-1)
			r.count.connectionsRefused.Add(1)
			_ = conn.Close()
			continue
		}
		r.adopt(conn)
		go r.connection(conn)
	}
}

// connection takes the messages of one connection.
func (r *SyslogReceiver) connection(conn net.Conn) {
	defer r.disown(conn)
	defer r.count.connections.Add(-1)
	in := syslog.NewReader(&drainedConn{conn, r.newDrain()}, r.o.MaxMessage, func(partly bool) { r.deadline(conn, partly) })
	for {
		message, cut, err := in.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && r.ctx.Err() == nil {
				r.count.connectionsBroken.Add(1)
			}
			return
		}
		r.count.bytes.Add(int64(len(message)))
		if cut {
			r.count.truncated.Add(1)
		}
		d := r.draft(message, conn.RemoteAddr(), "tcp")
		if d == nil {
			continue
		}
		// What was read is written, also while the receiver is closed: only when that takes
		// too long it is given up.
		if err := r.w.put(r.w.ctx, d, nil); err != nil {
			r.count.lost.Add(1)
			return
		}
	}
}

// deadline bounds how long a part of a message waits for the rest.
func (r *SyslogReceiver) deadline(conn net.Conn, partly bool) {
	limit := r.o.IdleTimeout
	if partly {
		limit = r.o.FrameTimeout
	}
	at := time.Time{}
	if limit > 0 {
		at = time.Now().Add(limit)
	}
	// On a connection that is closed the read fails. This may undo the wake of Close: the
	// read that follows looks whether the receiver closes.
	_ = conn.SetReadDeadline(at)
}

// draft makes a message a row; nil if it becomes none.
func (r *SyslogReceiver) draft(b []byte, from net.Addr, transport string) *draft {
	r.count.received.Add(1)
	m := syslog.Parse(b, &r.parse)
	if m.Format == syslog.Plain {
		r.count.malformed.Add(1)
	}
	e := syslogEvent(&m)
	e.Received, e.Sequence = r.o.Now().Unix(), r.count.next()
	if from != nil {
		e.Peer = from.String()
		host, _, err := net.SplitHostPort(e.Peer)
		if err != nil {
			host = e.Peer
		}
		e.Set("peer_ip", host)
	}
	e.Set("transport", transport)
	e.setData(&m) // last: it may have more parameters than an event has fields
	d, err := r.o.Mapping.draft(e)
	switch {
	case err != nil:
		r.count.unmapped.Add(1)
	case d == nil:
		r.count.dropped.Add(1)
	}
	return d
}

// SyslogEvent returns a message as an event, with these fields, if they are not empty:
//
//	format  facility  facility_code  severity  severity_code  priority
//	time  timestamp  hostname  app_name  procid  msgid  message
//	sd.ELEMENT.PARAMETER of structured data, with "," between the values of one that is repeated
//
// time is in seconds since 1970, timestamp as RFC 3339 has it. A receiver adds peer_ip
// and transport.
func SyslogEvent(m *syslog.Message) *Event {
	e := syslogEvent(m)
	e.setData(m)
	return e
}

// syslogEvent returns a message without its structured data.
func syslogEvent(m *syslog.Message) *Event {
	e := NewEvent(Syslog)
	e.Set("format", m.Format.String())
	e.Set("facility", m.Facility.String())
	e.Set("facility_code", strconv.Itoa(int(m.Facility)))
	e.Set("severity", m.Severity.String())
	e.Set("severity_code", strconv.Itoa(int(m.Severity)))
	e.Set("priority", strconv.Itoa(m.Priority))
	if !m.Time.IsZero() {
		e.Set("time", strconv.FormatInt(m.Time.Unix(), 10))
		e.Set("timestamp", m.Time.Format(time.RFC3339Nano))
	}
	for _, f := range []field{{"hostname", m.Hostname}, {"app_name", m.AppName}, {"procid", m.ProcID}, {"msgid", m.MsgID}, {"message", m.Text}} {
		if f.value != "" {
			e.Set(f.name, f.value)
		}
	}
	return e
}

// setData adds the structured data of a message.
func (e *Event) setData(m *syslog.Message) {
	values := map[string][]string{} // of each field
	var names []string
	for _, d := range m.Data {
		for _, p := range d.Params {
			name := "sd." + d.ID + "." + p.Name
			if values[name] == nil {
				names = append(names, name)
			}
			values[name] = append(values[name], p.Value)
		}
	}
	for _, name := range names {
		e.Set(name, strings.Join(values[name], ","))
	}
}

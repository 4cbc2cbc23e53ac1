package kafka_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/answertest"
)

// raw is a connection on which requests are sent as they are.
type raw struct {
	t testing.TB
	net.Conn
	next int32
}

func (b *broker) raw(t testing.TB) *raw {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &raw{t: t, Conn: c}
}

// send sends a request of the given version and returns its correlation ID.
func (c *raw) send(req kmsg.Request, version int16) int32 {
	c.t.Helper()
	req.SetVersion(version)
	c.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, c.next)
	if _, err := c.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	return c.next
}

// receive reads one answer: its correlation ID and the bytes that follow.
func (c *raw) receive() (int32, []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		c.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:]
}

// ask sends a request and returns its answer, which must not have nulls that clients
// do not expect.
func ask[R kmsg.Response](c *raw, req kmsg.Request, version int16) R {
	c.t.Helper()
	id := c.send(req, version)
	got, body := c.receive()
	if got != id {
		c.t.Fatalf("answer to request %d, want %d", got, id)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("answer to %s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	if err := answertest.Check(resp); err != nil {
		c.t.Error(err)
	}
	return resp.(R)
}

// closed fails the test unless the server ends the connection without an answer.
func (c *raw) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c); err == nil && len(rest) > 0 {
		c.t.Errorf("the server answered %d bytes: %x", len(rest), rest)
	}
}

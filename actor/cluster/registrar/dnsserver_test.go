package registrar_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
)

// The types of records that the server has, and the codes of its answers.
const (
	typeA      = 1
	typeAAAA   = 28
	typeSRV    = 33
	nameError  = 3
	serverFail = 2
)

// zone is a DNS server on loopback: the data of records by type and name.
type zone struct {
	mu      sync.Mutex
	records map[uint16]map[string][][]byte
	broken  bool
}

func (z *zone) add(kind uint16, name string, data []byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.records[kind] == nil {
		z.records[kind] = make(map[string][][]byte)
	}
	z.records[kind][name] = append(z.records[kind][name], data)
}

func (z *zone) a(name, ip string)    { z.add(typeA, name, net.ParseIP(ip).To4()) }
func (z *zone) aaaa(name, ip string) { z.add(typeAAAA, name, net.ParseIP(ip).To16()) }

func (z *zone) srv(name string, priority, weight, port uint16, target string) {
	data := binary.BigEndian.AppendUint16(nil, priority)
	data = binary.BigEndian.AppendUint16(data, weight)
	data = binary.BigEndian.AppendUint16(data, port)
	z.add(typeSRV, name, appendName(data, target))
}

// serve answers over UDP until the test ends, and returns a resolver that asks it.
func (z *zone) serve(t *testing.T) *net.Resolver {
	t.Helper()
	z.records = make(map[uint16]map[string][][]byte)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(z.answer(buf[:n]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer makes a response: the header with its flags and counts, the question as it
// was, and a record for each entry, whose name points at the question's.
func (z *zone) answer(query []byte) []byte {
	name, end := readName(query, 12)
	kind := binary.BigEndian.Uint16(query[end:])
	z.mu.Lock()
	defer z.mu.Unlock()
	data := z.records[kind][strings.ToLower(name)]
	code := uint16(0)
	if !z.known(name) {
		code = nameError
	}
	if z.broken {
		data, code = nil, serverFail
	}
	out := append([]byte{}, query[:2]...)
	for _, v := range []uint16{0x8580 | code, 1, uint16(len(data)), 0, 0} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	out = append(out, query[12:end+4]...)
	for _, d := range data {
		out = append(out, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 60)
		out = binary.BigEndian.AppendUint16(out, uint16(len(d)))
		out = append(out, d...)
	}
	return out
}

func (z *zone) known(name string) bool {
	for _, names := range z.records {
		if names[strings.ToLower(name)] != nil {
			return true
		}
	}
	return false
}

func readName(b []byte, at int) (name string, end int) {
	for b[at] != 0 {
		n := int(b[at])
		name += string(b[at+1:at+1+n]) + "."
		at += 1 + n
	}
	return name, at + 1
}

func appendName(b []byte, name string) []byte {
	for label := range strings.SplitSeq(strings.Trim(name, "."), ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	return append(b, 0)
}

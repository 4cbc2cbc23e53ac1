package message

import (
	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// The size at which a message of a stream is full. Small enough to stay in a
// processor's cache and to interleave well with other streams of a connection,
// large enough that the cost of a message is divided among many small records.
const (
	FullBytes   = 64 << 10
	FullRecords = 1024
)

// recordOverhead is about what a record takes in a message beside its bytes.
const recordOverhead = 48

// Records collects records, whose bytes it copies, into one message of a stream.
// The zero value is empty and ready; Reset keeps its memory.
//
// Invariant: message.Records are pointers to the first elements of slab.
type Records struct {
	message pb.Records
	slab    []*pb.Record
	headers []*pb.Header // all headers of all records, used from the front
	used    int          // of headers
	arena   []byte       // copies of keys, values and header values
	size    int
	space   string // of the last record
}

// Add copies r to the end of the message.
func (m *Records) Add(r mainstem.Record) {
	n := len(m.message.Records)
	if n == len(m.slab) {
		m.slab = append(m.slab, new(pb.Record))
	}
	out := m.slab[n]
	m.message.Records = m.slab[:n+1]
	full := r.Space
	if r.Space == m.space && n > 0 {
		r.Space = "" // as the record before
	}
	m.space = full
	r.Key, r.Value = m.copy(r.Key), m.copy(r.Value)
	fillRecord(out, r)
	out.Headers = m.addHeaders(out.Headers[:0], r.Headers)
	m.size += recordOverhead + len(r.Space) + len(r.Key) + len(r.Value)
}

func (m *Records) addHeaders(into []*pb.Header, h mainstem.Headers) []*pb.Header {
	for i := range h {
		if m.used == len(m.headers) {
			m.headers = append(m.headers, new(pb.Header))
		}
		out := m.headers[m.used]
		m.used++
		fillHeader(out, mainstem.Header{Name: h[i].Name, Value: m.copy(h[i].Value)})
		m.size += len(h[i].Name) + len(h[i].Value) + recordOverhead/4
		into = append(into, out)
	}
	return into
}

// copy returns a copy of b in the arena, nil for nil. When the arena grows, earlier
// copies stay where they are.
func (m *Records) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if m.arena == nil {
		m.arena = make([]byte, 0, 64) // or the copy of an empty value would be nil
	}
	at := len(m.arena)
	m.arena = append(m.arena, b...)
	return m.arena[at:len(m.arena):len(m.arena)]
}

// Len returns the number of records in the message.
func (m *Records) Len() int { return len(m.message.Records) }

// Full reports whether the message should be sent before another record is added.
func (m *Records) Full() bool { return m.size >= FullBytes || m.Len() >= FullRecords }

// Message returns the message, which stays valid until the next Add or Reset.
func (m *Records) Message() *pb.Records { return &m.message }

// Reset empties the message. Memory for much more than a full message, which a few
// large records may have taken, is given back.
func (m *Records) Reset() {
	m.message.Records = nil
	m.arena, m.used, m.size, m.space = m.arena[:0], 0, 0, ""
	if cap(m.arena) > 4*FullBytes || len(m.headers) > 4*FullRecords {
		m.slab, m.headers, m.arena = nil, nil, nil
	}
}

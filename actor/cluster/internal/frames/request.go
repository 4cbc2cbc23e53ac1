package frames

// Op is the operation of a request.
type Op byte

// The operations. They cross the wire: add new ones at the end only.
const (
	_             Op = iota
	OpResolve        // return the number of the actor Name, which takes Messages
	OpSpawn          // start the actor that is enabled under Name, with the value; return its number
	OpStartApp       // start the application Name
	OpStopApp        // stop the application Name
	OpSubscribe      // subscribe to the event Name under Number; return how many values it replays
	OpUnsubscribe    // end the subscription Number
	OpPublish        // publish the value by the event Name
	OpMembers        // return the numbers of the members of the group Name
	opEnd
)

// Request asks the node to carry out an operation.
//
//	id, ttl   numbers
//	op        1 byte
//	name      text
//	messages  text
//	number    number
//	type      number, 0 if there is no value
//	data      the rest
type Request struct {
	ID       uint64 // given by the sender
	TTL      uint64 // milliseconds; 0: no limit
	Op       Op
	Name     string
	Messages string // name of the expected type of messages or values, "" for any
	Number   uint64 // of a subscription, given by the sender
	Value
}

// AppendHead appends the request without its data.
func (q *Request) AppendHead(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindRequest)), q.ID)
	dst = append(appendUvarint(dst, q.TTL), byte(q.Op))
	dst = appendText(appendText(dst, q.Name), q.Messages)
	return appendUvarint(appendUvarint(dst, q.Number), q.Type)
}

// ParseRequest parses a [KindRequest].
func ParseRequest(frame []byte) (q Request, err error) {
	r := reader{rest: frame}
	r.kind(KindRequest, 0)
	q.ID = r.uvarint()
	q.TTL = r.uvarint()
	if q.Op = Op(r.byte()); q.Op == 0 || q.Op >= opEnd {
		r.fail("request %d: there is no such request", q.Op)
	}
	q.Name, q.Messages = r.text(), r.text()
	q.Number = r.uvarint()
	q.Type = r.uvarint()
	q.Data = r.all()
	return q, r.err
}

// Response is the result of a request.
//
//	first   bit 5: failed
//	id      number, as in the Request
//	data    the rest: an Error if it failed, else numbers
type Response struct {
	ID      uint64
	Failed  bool
	Error   []byte
	Numbers []uint64
}

// AppendHead appends the response without its error.
func (p *Response) AppendHead(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindResponse)|failed(p.Failed)), p.ID)
	if !p.Failed {
		for _, n := range p.Numbers {
			dst = appendUvarint(dst, n)
		}
	}
	return dst
}

// ParseResponse parses a [KindResponse].
func ParseResponse(frame []byte) (p Response, err error) {
	r := reader{rest: frame}
	p.Failed = r.kind(KindResponse, flagError)&flagError != 0
	p.ID = r.uvarint()
	if p.Failed {
		p.Error = r.all()
		return p, r.err
	}
	for r.err == nil && len(r.rest) > 0 {
		p.Numbers = append(p.Numbers, r.uvarint())
	}
	return p, r.err
}

// Entry is a type or an error value that a node may send.
//
//	number  number of the type in frames of the node, from 1
//	short   number of the type inside of encoded values, 0 if the codec writes its name there
//	name    text
//	schema  text: the codec's schema of the type; empty for an error value
type Entry struct {
	Number uint64
	Short  uint64
	Name   string
	Schema string
}

// Catalog lists types that a node may send. Several catalogs add up.
//
//	entries  their count, a number, then each
type Catalog struct{ Entries []Entry }

// leastEntry is the least number of bytes of an entry.
const leastEntry = 4

// Append appends the frame.
func (c *Catalog) Append(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindCatalog)), uint64(len(c.Entries)))
	for _, e := range c.Entries {
		dst = appendUvarint(appendUvarint(dst, e.Number), e.Short)
		dst = appendText(appendText(dst, e.Name), e.Schema)
	}
	return dst
}

// ParseCatalog parses a [KindCatalog].
func ParseCatalog(frame []byte) (c Catalog, err error) {
	r := reader{rest: frame}
	r.kind(KindCatalog, 0)
	n := r.count(leastEntry)
	c.Entries = make([]Entry, 0, n)
	for range n {
		e := Entry{Number: r.typeNumber(), Short: r.uvarint(), Name: r.text(), Schema: string(r.bytes(MaxSchema))}
		if r.err != nil {
			break
		}
		c.Entries = append(c.Entries, e)
	}
	return c, r.end()
}

// TypeAck is the answer to a catalog: which of its types the receiver can read. A later answer
// about a type replaces an earlier one.
//
//	answers  their count, a number, then each:
//	          number   number of the type in the catalog
//	          problem  text: why it cannot be read; empty if it can
type TypeAck struct{ Answers []TypeAnswer }

// TypeAnswer reports whether one type can be read.
type TypeAnswer struct {
	Number  uint64
	Problem string // "": it can be read
}

// leastTypeAnswer is the least number of bytes of a TypeAnswer.
const leastTypeAnswer = 2

// Append appends the frame. Problems are cut to [MaxText].
func (v *TypeAck) Append(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindTypeAck)), uint64(len(v.Answers)))
	for _, j := range v.Answers {
		dst = appendText(appendUvarint(dst, j.Number), j.Problem[:min(len(j.Problem), MaxText)])
	}
	return dst
}

// ParseTypeAck parses a [KindTypeAck].
func ParseTypeAck(frame []byte) (v TypeAck, err error) {
	r := reader{rest: frame}
	r.kind(KindTypeAck, 0)
	n := r.count(leastTypeAnswer)
	v.Answers = make([]TypeAnswer, 0, n)
	for range n {
		j := TypeAnswer{Number: r.typeNumber(), Problem: r.text()}
		if r.err != nil {
			break
		}
		v.Answers = append(v.Answers, j)
	}
	return v, r.end()
}

// count reads the number of entries that follow, each of at least least bytes. So a caller may
// allocate memory for that number.
func (r *reader) count(least int) int {
	n := r.uvarint()
	if n > MaxEntries || n > uint64(len(r.rest)/least) {
		r.fail("%d types in %d bytes: the limit is %d", n, len(r.rest), MaxEntries)
		return 0
	}
	return int(n)
}

// typeNumber reads the number of a type in a catalog.
func (r *reader) typeNumber() uint64 {
	n := r.present()
	if n > MaxEntries {
		r.fail("the number %d of a type: the limit is %d", n, MaxEntries)
	}
	return n
}

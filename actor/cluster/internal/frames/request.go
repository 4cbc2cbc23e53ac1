package frames

// Op says what a request asks for.
type Op byte

// The requests. They cross the wire: add at the end only.
const (
	_             Op = iota
	OpResolve        // the number of the actor with Name, which takes Messages
	OpSpawn          // spawn what is enabled under Name with the value
	OpStartApp       // start the application Name
	OpStopApp        // stop it
	OpSubscribe      // to the event Name under Number
	OpUnsubscribe    // from Number
	OpPublish        // the value by the event Name
	OpMembers        // of the group Name, which take Messages
	opEnd
)

// Request asks the node for something.
//
//	id, ttl   numbers
//	op        1 byte
//	name      text
//	messages  text
//	number    number
//	type      number, 0 if there is no value
//	data      the rest
type Request struct {
	ID       uint64
	TTL      uint64 // milliseconds; 0 for no limit
	Op       Op
	Name     string
	Messages string // the type of messages
	Number   uint64
	Value
}

// AppendHead appends all of a request but its data.
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

// Response says what came of a request.
//
//	first   bit 5 failed
//	id      number
//	data    failed: an error of the codec, the rest; else number, and numbers until the end
type Response struct {
	ID      uint64
	Failed  bool
	Error   []byte
	Numbers []uint64
}

// AppendHead appends all of a response but its error.
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

// Entry is a type that a node may send.
//
//	number  number: what it is called in frames
//	short   number: what the codec calls it inside of values, 0 if by name
//	name    text
//	schema  text: as the codec describes what it writes; empty for an error value
type Entry struct {
	Number uint64
	Short  uint64
	Name   string
	Schema string
}

// Catalog says which types a node may send, or which more.
//
//	entries  their count, a number, then each
type Catalog struct{ Entries []Entry }

// leastEntry is how many bytes an entry has at least.
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

// TypeAck says which types of a catalog its receiver can read.
//
//	answers  their count, a number, then each:
//	          number   number: that of the catalog
//	          problem  text: why it cannot read it; empty if it can
type TypeAck struct{ Answers []TypeAnswer }

// TypeAnswer says whether one type can be read.
type TypeAnswer struct {
	Number  uint64
	Problem string
}

// leastTypeAnswer is how many bytes a TypeAnswer has at least.
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

// count reads how many entries follow, of which each has at least so many bytes.
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

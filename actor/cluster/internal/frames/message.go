package frames

// Kind is the kind of a frame.
type Kind byte

// The kinds. They cross the wire: add new ones at the end only, up to 31.
const (
	_             Kind = iota
	KindMessage        // a message for an actor
	KindAnswer         // the answer to a question
	KindMonitor        // begin to monitor
	KindDemonitor      // end a monitor
	KindDown           // a monitored actor has ended
	KindLink           // link two actors
	KindUnlink         // end a link
	KindExit           // a linked actor has ended
	KindControl        // end an actor
	KindRequest        // a request to the node
	KindResponse       // the result of a request
	KindEvent          // a value of an event that was subscribed to
	KindEventEnd       // the event has ended
	KindGroup          // a message for the members of a group
	KindCatalog        // the types that a node may send
	KindTypeAck        // which of them the other can read
	KindMark           // the frames of a lane before a control have come
	kindEnd
)

const (
	kindMask   = 0x1f
	flagNamed  = 0x80 // the target is a name
	flagMore   = 0x20 // of a Message: more fields follow the target
	flagError  = 0x20 // of an Answer or a Response: it is an error
	flagTheirs = 0x20 // of an Unlink: the receiver has given the number
)

// KindOf returns the kind of a frame, 0 if there is no such kind.
func KindOf(frame []byte) Kind {
	if len(frame) == 0 {
		return 0
	}
	if k := Kind(frame[0] & kindMask); k < kindEnd {
		return k
	}
	return 0
}

// Target is an actor of the node that gets the frame, by number or, if that is 0, by name.
type Target struct {
	ID   uint64
	Name string
}

// flag returns the target's flag in the first byte.
func (t Target) flag() byte {
	if t.ID == 0 {
		return flagNamed
	}
	return 0
}

func (t Target) append(dst []byte) []byte {
	if t.ID == 0 {
		return appendText(dst, t.Name)
	}
	return appendUvarint(dst, t.ID)
}

func (r *reader) target(first byte) (t Target) {
	if first&flagNamed != 0 {
		if t.Name = r.text(); t.Name == "" {
			r.fail("the name of an actor is empty")
		}
		return t
	}
	if t.ID = r.uvarint(); t.ID == 0 {
		r.fail("the number of an actor is 0")
	}
	return t
}

// Value is a value of a type.
type Value struct {
	Type uint64 // number of the type in the sender's Catalog; 0 for nil
	Data []byte // encoded by the codec
}

// Message is a message for an actor.
//
//	first     bit 5: more fields; bit 6: 0; bit 7: target by name
//	to        target
//	with bit 5: 1 byte of flags, 1 byte of priority, then the fields of the flags, in this order
//	            1  question  number, which the answer repeats
//	            2  asker     text and number: the node that asks and the start of its life,
//	                         if it is not the sender
//	            4  ttl       number: milliseconds until the question is over
//	            8  trace     text
//	type      number
//	data      the rest
type Message struct {
	To       Target
	Priority byte   // an actor.Priority
	Question uint64 // 0: it asks nothing
	Asker    string // the node that asks; "": the sender
	Start    uint64 // with Asker: the start of its life
	TTL      uint64 // milliseconds; 0: no limit
	Trace    []byte // headers of the trace, or nil
	Value
}

const (
	moreQuestion = 1 << iota
	moreAsker
	moreTTL
	moreTrace
	moreAll = 1<<iota - 1
)

// AppendHead appends the message without its data.
func (m *Message) AppendHead(dst []byte) []byte {
	more := byte(0)
	if m.Question != 0 {
		more |= moreQuestion
	}
	if m.Asker != "" {
		more |= moreAsker
	}
	if m.TTL != 0 {
		more |= moreTTL
	}
	if len(m.Trace) > 0 {
		more |= moreTrace
	}
	first := byte(KindMessage) | m.To.flag()
	if more == 0 && m.Priority == 0 {
		dst = m.To.append(append(dst, first))
		return appendUvarint(dst, m.Type)
	}
	dst = m.To.append(append(dst, first|flagMore))
	dst = append(dst, more, m.Priority)
	if m.Question != 0 {
		dst = appendUvarint(dst, m.Question)
	}
	if m.Asker != "" {
		dst = appendUvarint(appendText(dst, m.Asker), m.Start)
	}
	if m.TTL != 0 {
		dst = appendUvarint(dst, m.TTL)
	}
	if len(m.Trace) > 0 {
		dst = append(appendUvarint(dst, uint64(len(m.Trace))), m.Trace...)
	}
	return appendUvarint(dst, m.Type)
}

// ParseMessage parses a [KindMessage].
func ParseMessage(frame []byte) (m Message, err error) {
	r := reader{rest: frame}
	first := r.kind(KindMessage, flagNamed|flagMore)
	m.To = r.target(first)
	if first&flagMore != 0 {
		r.more(&m)
	}
	m.Type = r.uvarint()
	m.Data = r.all()
	return m, r.err
}

// more reads the fields that flagMore announces.
func (r *reader) more(m *Message) {
	more := r.byte()
	m.Priority = r.byte()
	if more&^byte(moreAll) != 0 || more == 0 && m.Priority == 0 {
		r.fail("flags %#x of a message of priority %d", more, m.Priority)
	}
	if more&moreQuestion != 0 {
		m.Question = r.present()
	}
	if more&moreAsker != 0 {
		if m.Asker = r.text(); m.Asker == "" || m.Question == 0 {
			r.fail("who asks has no name, or no question")
		}
		m.Start = r.uvarint()
	}
	if more&moreTTL != 0 {
		m.TTL = r.present()
	}
	if more&moreTrace != 0 {
		if m.Trace = r.bytes(MaxText); len(m.Trace) == 0 {
			r.fail("a trace is empty")
		}
	}
}

// present reads a number that must not be 0.
func (r *reader) present() uint64 {
	n := r.uvarint()
	if n == 0 {
		r.fail("a number is 0")
	}
	return n
}

// kind reads the first byte, which must be of kind k and have no other flags than flags.
func (r *reader) kind(k Kind, flags byte) byte {
	first := r.byte()
	if r.err == nil && (Kind(first&kindMask) != k || first&^kindMask&^flags != 0) {
		r.fail("it begins with %#x: want kind %d", first, k)
	}
	return first
}

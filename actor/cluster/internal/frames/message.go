package frames

// Kind says what a frame is.
type Kind byte

// The kinds. They cross the wire: add at the end only, up to 31.
const (
	_             Kind = iota
	KindMessage        // a message for an actor
	KindAnswer         // the answer to a question
	KindMonitor        // begin to monitor
	KindDemonitor      // end that
	KindDown           // a monitored actor has ended
	KindLink           // link two actors
	KindUnlink         // end that
	KindExit           // a linked actor has ended
	KindControl        // end an actor
	KindRequest        // ask the node for something
	KindResponse       // what came of it
	KindEvent          // a value of an event that was subscribed to
	KindEventEnd       // there will be none any more
	KindGroup          // a message for the members of a group
	KindCatalog        // the types that a node may send
	KindTypeAck        // which of them the other can read
	KindMark           // what a lane had before a control has come
	kindEnd
)

const (
	kindMask   = 0x1f
	flagNamed  = 0x80 // the target is a name
	flagMore   = 0x20 // of messages: a byte of flags and what they announce
	flagError  = 0x20 // of answers and responses: an error
	flagTheirs = 0x20 // of what ends links: the number is the receiver's
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

// flag returns what the target adds to the first byte.
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
	Type uint64 // the number that the sender has given to the type; 0 for nil
	Data []byte // as the codec has written it
}

// Message is a message for an actor.
//
//	first     bits 5 more, 6–7 unused and target by name
//	to        target
//	if more:  flags, priority, then what the flags say, in this order
//	            1  question  number: who answers says it
//	            2  asker     text and number: the node that it is a question of, and
//	                         which of its lives, if it is not the one that sends
//	            4  ttl       milliseconds for which the question has a meaning
//	            8  trace     text
//	type      number
//	data      the rest
type Message struct {
	To       Target
	Priority byte
	Question uint64 // 0 if it asks nothing
	Asker    string // the node that asks, "" if it is the one that sends
	Start    uint64 // with Asker: which of its lives
	TTL      uint64 // milliseconds; 0 for no limit
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

// AppendHead appends all of a message but its data.
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

// present reads a number that is not 0, because 0 is not written.
func (r *reader) present() uint64 {
	n := r.uvarint()
	if n == 0 {
		r.fail("a number is 0")
	}
	return n
}

// kind reads the first byte, which must be of a kind and have no flags but those.
func (r *reader) kind(k Kind, flags byte) byte {
	first := r.byte()
	if r.err == nil && (Kind(first&kindMask) != k || first&^kindMask&^flags != 0) {
		r.fail("it begins with %#x: want kind %d", first, k)
	}
	return first
}

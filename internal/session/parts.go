package session

// A message has memory for firstParts bytes, and then for growParts times what has come of it:
// a side that only says that a message is large takes little of the other. With Lean it has
// memory for what has come.
const (
	firstParts = 256 << 10
	growParts  = 4
)

// Parts puts together the messages of one direction of a call. The zero Parts is ready.
type Parts struct {
	Body  []byte // of the last message, when Add has returned whole
	Lean  bool   // no memory was reserved for the message yet
	size  int    // of the message
	open  bool   // some of it has come
	begun bool   // a message was begun
}

// Open reports whether a part of a message has come, and not all of it.
func (p *Parts) Open() bool { return p.open }

// Add takes a frame of TypeData that is not a mere End. Cost are the bytes that it takes off
// the credit. Body is new memory for each message.
func (p *Parts) Add(f Flags, payload []byte) (whole bool, cost int, err error) {
	size, piece, err := ParseData(f, payload)
	if err != nil {
		return false, 0, err
	}
	return p.add(f, size, piece)
}

// AddCall takes what follows the head of a frame of TypeCall.
func (p *Parts) AddCall(f Flags, c Call, piece []byte) (whole bool, cost int, err error) {
	return p.add(f|First, int(c.Size), piece)
}

func (p *Parts) add(f Flags, size int, piece []byte) (whole bool, cost int, err error) {
	cost = len(piece)
	if f&First != 0 {
		if p.open {
			return false, 0, Violation("a message begins within another")
		}
		if IsFree(f, size) && !p.begun {
			cost = 0
		}
		p.Body, p.size, p.open, p.begun = nil, size, true, true
	}
	if !p.open || len(piece) > p.size-len(p.Body) {
		return false, 0, Violation("a piece is of no message, or beyond its end")
	}
	if came := len(p.Body) + len(piece); came > cap(p.Body) && !p.Lean {
		p.Body = append(make([]byte, 0, min(p.size, max(firstParts, growParts*came))), p.Body...)
	}
	p.Body = append(p.Body, piece...)
	full := len(p.Body) == p.size
	if full != (f&Last != 0) {
		return false, 0, Violation("a message of %d bytes ends after %d", p.size, len(p.Body))
	}
	p.open = !full
	return full, cost, nil
}

// IsFree reports whether a message costs no credit, if it is the first of its direction.
func IsFree(f Flags, size int) bool {
	return f&(First|Last|End) == First|Last|End && size <= SmallMessage
}

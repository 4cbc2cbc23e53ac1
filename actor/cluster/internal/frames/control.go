package frames

// Answer is the answer to a question.
//
//	first     bit 5 failed
//	question  number
//	data      failed: an error of the codec; else type, number, and data, the rest
type Answer struct {
	Question uint64
	Failed   bool
	Value    // without Type if it failed
}

// AppendHead appends all of an answer but its data.
func (a *Answer) AppendHead(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindAnswer)|failed(a.Failed)), a.Question)
	if !a.Failed {
		dst = appendUvarint(dst, a.Type)
	}
	return dst
}

func failed(is bool) byte {
	if is {
		return flagError
	}
	return 0
}

// ParseAnswer parses a [KindAnswer].
func ParseAnswer(frame []byte) (a Answer, err error) {
	r := reader{rest: frame}
	a.Failed = r.kind(KindAnswer, flagError)&flagError != 0
	a.Question = r.present()
	if !a.Failed {
		a.Type = r.uvarint()
	}
	a.Data = r.all()
	return a, r.err
}

// Monitor asks for a notice of the end of an actor, under a number of the sender.
type Monitor struct {
	ID uint64
	To Target
}

// Append appends the frame.
func (m *Monitor) Append(dst []byte) []byte {
	return m.To.append(appendUvarint(append(dst, byte(KindMonitor)|m.To.flag()), m.ID))
}

// ParseMonitor parses a [KindMonitor].
func ParseMonitor(frame []byte) (m Monitor, err error) {
	r := reader{rest: frame}
	first := r.kind(KindMonitor, flagNamed)
	m.ID = r.uvarint()
	m.To = r.target(first)
	return m, r.end()
}

// Demonitor takes a monitor back.
type Demonitor struct{ ID uint64 }

// Append appends the frame.
func (m *Demonitor) Append(dst []byte) []byte {
	return appendUvarint(append(dst, byte(KindDemonitor)), m.ID)
}

// ParseDemonitor parses a [KindDemonitor].
func ParseDemonitor(frame []byte) (m Demonitor, err error) {
	r := reader{rest: frame}
	r.kind(KindDemonitor, 0)
	m.ID = r.uvarint()
	return m, r.end()
}

// Notice says that something with a number of the receiver's has ended, and why:
// [KindDown] that of a monitor, [KindEventEnd] that of a subscription. Reason, an error of
// the codec, is the rest.
type Notice struct {
	Kind   Kind
	ID     uint64
	Reason []byte
}

// AppendHead appends all of a notice but its reason.
func (n *Notice) AppendHead(dst []byte) []byte {
	return appendUvarint(append(dst, byte(n.Kind)), n.ID)
}

// ParseNotice parses a notice of a kind.
func ParseNotice(frame []byte, k Kind) (n Notice, err error) {
	r := reader{rest: frame}
	r.kind(k, 0)
	n.Kind = k
	n.ID = r.uvarint()
	n.Reason = r.all()
	return n, r.err
}

// Link links an actor of the sender, by number, to one of the receiver, under a number
// of the sender's.
type Link struct {
	ID   uint64
	From uint64
	To   Target
}

// Append appends the frame.
func (l *Link) Append(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindLink)|l.To.flag()), l.ID)
	return l.To.append(appendUvarint(dst, l.From))
}

// ParseLink parses a [KindLink].
func ParseLink(frame []byte) (l Link, err error) {
	r := reader{rest: frame}
	first := r.kind(KindLink, flagNamed)
	l.ID = r.uvarint()
	l.From = r.present()
	l.To = r.target(first)
	return l, r.end()
}

// Unlink ends a link, or, as [KindExit], says that the sender's actor of it has ended,
// and why: then Reason, an error of the codec, is the rest.
//
//	first  bit 5: the number is the receiver's, not the sender's
type Unlink struct {
	Kind   Kind
	ID     uint64
	Theirs bool
	Reason []byte
}

// AppendHead appends all of it but the reason.
func (u *Unlink) AppendHead(dst []byte) []byte {
	first := byte(u.Kind)
	if u.Theirs {
		first |= flagTheirs
	}
	return appendUvarint(append(dst, first), u.ID)
}

// ParseUnlink parses a [KindUnlink] or [KindExit].
func ParseUnlink(frame []byte) (u Unlink, err error) {
	u.Kind = KindUnlink
	if KindOf(frame) == KindExit {
		u.Kind = KindExit
	}
	r := reader{rest: frame}
	u.Theirs = r.kind(u.Kind, flagTheirs)&flagTheirs != 0
	u.ID = r.uvarint()
	if u.Kind == KindExit {
		u.Reason = r.all()
	}
	return u, r.end()
}

// Control carries an actor.Order, which ends an actor.
//
//	to      target
//	order   1 byte
//	after   number: it takes effect when all lanes have brought the mark of that number; 0: at once
//	lanes   number: of those lanes, which are the first
type Control struct {
	To    Target
	Order byte
	After uint64
	Lanes uint64
}

// MaxLanes is how many lanes a control may wait for.
const MaxLanes = 1 << 10

// Append appends the frame.
func (c *Control) Append(dst []byte) []byte {
	dst = append(c.To.append(append(dst, byte(KindControl)|c.To.flag())), c.Order)
	return appendUvarint(appendUvarint(dst, c.After), c.Lanes)
}

// ParseControl parses a [KindControl].
func ParseControl(frame []byte) (c Control, err error) {
	r := reader{rest: frame}
	c.To = r.target(r.kind(KindControl, flagNamed))
	c.Order = r.byte()
	c.After = r.uvarint()
	if c.Lanes = r.uvarint(); c.Lanes > MaxLanes {
		r.fail("an order for %d lanes: the limit is %d", c.Lanes, MaxLanes)
	}
	return c, r.end()
}

// Mark says that all that its lane had before the [Control] of that number has come.
type Mark struct{ Number uint64 }

// Append appends the frame.
func (m *Mark) Append(dst []byte) []byte {
	return appendUvarint(append(dst, byte(KindMark)), m.Number)
}

// ParseMark parses a [KindMark].
func ParseMark(frame []byte) (m Mark, err error) {
	r := reader{rest: frame}
	r.kind(KindMark, 0)
	m.Number = r.present()
	return m, r.end()
}

// Event is a value for the subscription of a number.
//
//	subscription, type  numbers
//	data                the rest
type Event struct {
	Subscription uint64
	Value
}

// AppendHead appends all of an event but its data.
func (e *Event) AppendHead(dst []byte) []byte {
	return appendUvarint(appendUvarint(append(dst, byte(KindEvent)), e.Subscription), e.Type)
}

// ParseEvent parses a [KindEvent].
func ParseEvent(frame []byte) (e Event, err error) {
	r := reader{rest: frame}
	r.kind(KindEvent, 0)
	e.Subscription = r.uvarint()
	e.Type = r.uvarint()
	e.Data = r.all()
	return e, r.err
}

// Group is a message for the members of a group on the receiving node.
//
//	name  text
//	type  number
//	data  the rest
type Group struct {
	Name string
	Value
}

// AppendHead appends all of it but its data.
func (g *Group) AppendHead(dst []byte) []byte {
	return appendUvarint(appendText(append(dst, byte(KindGroup)), g.Name), g.Type)
}

// ParseGroup parses a [KindGroup].
func ParseGroup(frame []byte) (g Group, err error) {
	r := reader{rest: frame}
	r.kind(KindGroup, 0)
	g.Name = r.text()
	g.Type = r.uvarint()
	g.Data = r.all()
	return g, r.err
}

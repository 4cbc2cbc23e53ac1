package frames

// Answer is the answer to a question.
//
//	first     bit 5: failed
//	question  number
//	type      number, unless it failed
//	data      the rest: the value or, if it failed, an Error
type Answer struct {
	Question uint64 // the asking node's number of the question
	Failed   bool
	Value    // without Type if it failed
}

// AppendHead appends the answer without its data.
func (a *Answer) AppendHead(dst []byte) []byte {
	dst = appendUvarint(append(dst, byte(KindAnswer)|failed(a.Failed)), a.Question)
	if !a.Failed {
		dst = appendUvarint(dst, a.Type)
	}
	return dst
}

// failed returns the flag of an answer or a response that is an error.
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
//
//	id  number
//	to  target
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

// Demonitor ends a monitor.
//
//	id  number, as in the Monitor
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

// Notice reports the end of something under a number of the receiver: a monitored actor for
// [KindDown], a subscribed event for [KindEventEnd].
//
//	id      number
//	reason  the rest, an Error
type Notice struct {
	Kind   Kind
	ID     uint64
	Reason []byte
}

// AppendHead appends the notice without its reason.
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
// of the sender.
//
//	id, from  numbers
//	to        target
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

// Unlink ends a link: as [KindUnlink] because an actor asked for that, as [KindExit] because the
// sender's actor of the link has ended.
//
//	first   bit 5: the number was given by the receiver, not the sender
//	id      number
//	reason  the rest, an Error; only with KindExit
type Unlink struct {
	Kind   Kind
	ID     uint64
	Theirs bool // the receiver has given the number
	Reason []byte
}

// AppendHead appends the frame without the reason.
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

// Control is an actor.Order, which ends an actor. It takes effect when the [Mark] of its number has
// come through each of the first lanes but lane 0, through which the control comes.
//
//	to      target
//	order   1 byte
//	after   number of the marks; 0: it takes effect at once
//	lanes   number: how many lanes have marks, with lane 0
type Control struct {
	To    Target
	Order byte
	After uint64
	Lanes uint64
}

// MaxLanes is the number of lanes that a control may wait for.
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

// Mark follows the frames of its lane that were sent before the [Control] of that number.
//
//	number  number, from 1
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

// Event is a value of an event, for a subscription of the receiver.
//
//	subscription, type  numbers
//	data                the rest
type Event struct {
	Subscription uint64
	Value
}

// AppendHead appends the frame without its data.
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

// AppendHead appends the frame without its data.
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

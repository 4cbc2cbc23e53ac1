package syslog

import (
	"bytes"
	"strings"
	"time"
)

// Format is the form that a message came in.
type Format uint8

// The forms.
const (
	Plain   Format = iota // of no RFC
	RFC3164               // <PRI>Mmm dd hh:mm:ss host tag: text
	RFC5424               // <PRI>1 time host app procid msgid [data] text
)

var formatNames = [...]string{"plain", "rfc3164", "rfc5424"}

// String returns "plain", "rfc3164" or "rfc5424".
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return "unknown"
}

// Severity is how bad something is: 0 is the worst.
type Severity uint8

var severityNames = [...]string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// String returns the usual short name, "emerg" to "debug".
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "unknown"
}

// Facility is what kind of program a message is from.
type Facility uint8

var facilityNames = [...]string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
	"ntp", "audit", "console", "cron2", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"}

// String returns the usual short name, "kern" to "local7".
func (f Facility) String() string {
	if int(f) < len(facilityNames) {
		return facilityNames[f]
	}
	return "unknown"
}

// defaultPriority is that of messages without one: user, notice.
const defaultPriority = 13

// maxPriority is local7, debug.
const maxPriority = 191

// Message is one syslog message. What it does not have is "" or zero.
type Message struct {
	Format   Format
	Facility Facility
	Severity Severity
	Priority int // Facility * 8 + Severity
	// NoPriority says that the message had none, or none that could be: user, notice.
	NoPriority bool
	Time       time.Time
	Hostname   string
	AppName    string
	ProcID     string
	MsgID      string
	Data       []Element // structured data
	Text       string    // without the byte order mark that says it is UTF-8
}

// Element is one element of the structured data.
type Element struct {
	ID     string
	Params []Param
}

// Param is a name with a value.
type Param struct{ Name, Value string }

// Options says how what messages leave open is read. Nil and zero fields mean the
// defaults.
type Options struct {
	// Location is the zone of times that name none. Default [time.Local].
	Location *time.Location
	// Now is the time from which the year of times without one follows: it is the year
	// that brings them nearest to now. Default [time.Now].
	Now func() time.Time
}

// Parse reads a message. It takes all bytes: see the package comment.
func Parse(b []byte, o *Options) Message {
	p := parser{s: string(bytes.TrimRight(b, "\r\n\x00")), location: time.Local, now: time.Now}
	if o != nil && o.Location != nil {
		p.location = o.Location
	}
	if o != nil && o.Now != nil {
		p.now = o.Now
	}
	var m Message
	rest, ok := p.priority(&m)
	if !ok {
		m.NoPriority = true
		m.setPriority(defaultPriority)
	}
	if ok && strings.HasPrefix(rest, "1 ") && p.rfc5424(rest[2:], &m) {
		return m
	}
	bare := Message{NoPriority: m.NoPriority}
	bare.setPriority(m.Priority)
	p.rfc3164(rest, &bare)
	return bare
}

func (m *Message) setPriority(n int) {
	m.Priority, m.Facility, m.Severity = n, Facility(n/8), Severity(n%8)
}

// parser reads one message.
type parser struct {
	s        string
	location *time.Location
	now      func() time.Time
}

// priority reads "<PRI>" and returns what follows; ok is false if there is none.
func (p *parser) priority(m *Message) (rest string, ok bool) {
	end := strings.IndexByte(p.s, '>')
	if !strings.HasPrefix(p.s, "<") || end < 2 || end > 4 {
		return p.s, false
	}
	n := 0
	for _, c := range []byte(p.s[1:end]) {
		if c < '0' || c > '9' {
			return p.s, false
		}
		n = n*10 + int(c-'0')
	}
	if n > maxPriority || end > 2 && p.s[1] == '0' {
		return p.s, false
	}
	m.setPriority(n)
	return p.s[end+1:], true
}

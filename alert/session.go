package alert

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// SessionInfo says who works with the server. It is what catalog.connections
// shows and what triggers see; checking it is for who opens the session.
type SessionInfo struct {
	User        string
	App         string // "PROBE" makes the session a probe: see the package comment
	Host        string
	Description string
	Gateway     bool // rows come from another server: they keep their Tally and ServerName
	ReadOnly    bool // statements that write are Denied
}

// Probe reports whether the session is a probe's.
func (i *SessionInfo) Probe() bool { return i.App == "PROBE" }

// Session is a user's connection to a server. Its methods may be called from
// many goroutines; USE holds for all of them. Close it so that catalog.connections
// forgets it; nothing else hangs on it.
type Session struct {
	s       *Server
	id      int64
	info    SessionInfo
	started time.Time

	database atomic.Pointer[string] // of USE
	rows     atomic.Int64           // changed
	profile  profile
}

// profile is what catalog.profiles shows of a session.
type profile struct {
	sync.Mutex
	submits                 int64
	last, least, most, took time.Duration
	at                      time.Time
}

func (p *profile) note(at time.Time, took time.Duration) {
	p.Lock()
	defer p.Unlock()
	if p.submits == 0 || took < p.least {
		p.least = took
	}
	p.submits++
	p.last, p.at = took, at
	p.most = max(p.most, took)
	p.took += took
}

// sessions is the sessions that are open.
type sessions struct {
	sync.Mutex
	next int64
	open map[int64]*Session
}

func newSessions() *sessions { return &sessions{open: map[int64]*Session{}} }

func (ss *sessions) list() []*Session {
	ss.Lock()
	defer ss.Unlock()
	out := make([]*Session, 0, len(ss.open))
	for _, s := range ss.open {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Session opens a session.
func (s *Server) Session(info SessionInfo) *Session {
	ss := s.newSession(info)
	s.sessions.Lock()
	defer s.sessions.Unlock()
	s.sessions.next++
	ss.id = s.sessions.next
	s.sessions.open[ss.id] = ss
	return ss
}

// newSession returns a session that no catalog shows.
func (s *Server) newSession(info SessionInfo) *Session {
	return &Session{s: s, info: info, started: s.now()}
}

// Close takes the session out of catalog.connections. Closing twice is allowed.
func (ss *Session) Close() error {
	ss.s.sessions.Lock()
	defer ss.s.sessions.Unlock()
	delete(ss.s.sessions.open, ss.id)
	return nil
}

// Info returns what the session was opened with.
func (ss *Session) Info() SessionInfo { return ss.info }

// Server returns the server that the session is of.
func (ss *Session) Server() *Server { return ss.s }

// Result is what a statement changed.
type Result struct {
	Affected int64 // rows; of several statements, all together
	// Serial and KeyField name the last row that an INSERT made or met: its number in
	// this server (see [osql.RowSerial]), and "<Serial>:<ServerName>" for
	// alerts.status, else the texts of its primary key joined by ":".
	Serial   int64
	KeyField string
	Inserted bool              // that row is new
	Position mainstem.Position // in the log of the last change; 0 if nothing changed
}

func (r *Result) add(o Result) {
	r.Affected += o.Affected
	if o.KeyField != "" {
		r.Serial, r.KeyField, r.Inserted = o.Serial, o.KeyField, o.Inserted
	}
	r.Position = max(r.Position, o.Position)
}

// Exec runs the statements of text, one after the other, each in a commit of its
// own, and returns what they changed; see [Session.Exec].
func (s *Server) Exec(ctx context.Context, text string, args ...any) (Result, error) {
	return s.internal.Exec(ctx, text, args...)
}

// Query runs a statement and returns its result; see [Session.Query].
func (s *Server) Query(ctx context.Context, text string, args ...any) (*Rows, error) {
	return s.internal.Query(ctx, text, args...)
}

// Exec runs the statements of text, one after the other, each in a commit of its
// own; args are the values of the "?" in it. It returns what they changed, and the
// first error, after which no statement is tried; see [StatementError]. When it
// returns, the changes are visible to every query and have the durability of the server.
//
// All statements are parsed before the first one runs. A statement that changes more
// than [Options.BatchRows] rows, or 32 MiB, is several commits: if it fails, the error says how many
// rows it had changed.
func (ss *Session) Exec(ctx context.Context, text string, args ...any) (Result, error) {
	var total Result
	err := ss.Each(ctx, func(r *Rows) error {
		for r.Next() { // the rows of a SELECT count
		}
		total.add(r.Result())
		return r.Err()
	}, text, args...)
	return total, err
}

// Query runs the statements of text and returns the result of the last one,
// which need not be a SELECT. Rows are read as they are needed, and show one moment:
// not before every change that had returned when Query was called. Errors are those of
// [Session.Exec].
func (ss *Session) Query(ctx context.Context, text string, args ...any) (*Rows, error) {
	statements, err := ss.parse(text, args)
	if err != nil {
		return nil, err
	}
	p := progress{of: len(statements)}
	for i := range statements {
		r, err := ss.run(ctx, &statements[i])
		if err != nil {
			return nil, p.failed(err)
		}
		if p.of == i+1 {
			return r, nil
		}
		p.done(r)
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "the text holds no statement")
}

// Each runs the statements of text and calls do with the result of each, which
// it closes afterwards. The first error ends it: that of a statement says which one it
// was (see [StatementError]), that of do is returned as it is.
func (ss *Session) Each(ctx context.Context, do func(*Rows) error, text string, args ...any) error {
	statements, err := ss.parse(text, args)
	if err != nil {
		return err
	}
	p := progress{of: len(statements)}
	for i := range statements {
		r, err := ss.run(ctx, &statements[i])
		if err != nil {
			return p.failed(err)
		}
		err = do(r)
		if cerr := r.Close(); cerr != nil {
			return p.failed(cerr)
		}
		if err != nil {
			return err
		}
		p.done(r)
	}
	return nil
}

func split(text string, args []any) ([]osql.Statement, error) {
	literals := make([]osql.Literal, len(args))
	for i, a := range args {
		v, err := valueOf(a)
		if err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "argument %d: %w", i+1, err)
		}
		literals[i] = v.literal()
	}
	return osql.Split(text, literals)
}

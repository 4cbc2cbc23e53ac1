package alert

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Server is an ObjectServer on a log. Its methods may be called from many
// goroutines. Close it before the log.
type Server struct {
	log     mainstem.Log
	o       Options
	mirror  *mirror
	started time.Time
	primary atomic.Bool

	partBytes int // see maxPartBytes

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	// quiet never ends. The mirror gets it: its transactions are short, and watching
	// a context costs SQLite a goroutine for each statement.
	quiet context.Context
	wg    sync.WaitGroup // the writer, the follower and the scheduler
	jobs  chan *job
	once  sync.Once // Close

	schema  atomic.Pointer[schema] // written by the writer only
	changed chan struct{}          // capacity 1: the schema has changed, for the follower
	plans   plans

	committing sync.Mutex // held from before a batch is in the log until it is in the mirror
	applied    applied
	recent     recent              // of the writer
	spare      *tx                 // of the writer, or nil
	serial     map[uint64]*serials // by table; of the writer

	automations *automations
	sessions    *sessions
	internal    *Session
	counts      counters
	failure     atomic.Pointer[mainstem.Error] // of the mirror: see lost
	numbers     map[uint64]int64               // by table: the last row that SQLite did not number; of the writer
}

// Open opens the alert tables of log: it creates the standard ones if there are
// none, and reads all rows into memory. It takes about half a minute for a million
// rows. The log stays the caller's: close it after the server.
//
// Several servers may be open on one log, also in several processes, if their
// clocks agree: each sees what the others do as soon as its feed brings it, and
// writes are safe. They are one table then; servers that have tables of their own
// have logs of their own.
func Open(ctx context.Context, log mainstem.Log, o *Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{log: log, o: o.withDefaults(), jobs: make(chan *job, maxGroup), changed: make(chan struct{}, 1), serial: map[uint64]*serials{}, numbers: map[uint64]int64{}}
	s.started, s.partBytes = s.o.Now(), maxPartBytes
	s.quiet = context.WithoutCancel(ctx)
	s.ctx, s.stop = context.WithCancel(s.quiet)
	s.primary.Store(true)
	s.automations = newAutomations(s.o.Automations, s.started)
	s.sessions = newSessions()
	var err error
	if s.mirror, err = openMirror(ctx, s.o.MaxResultBytes, s.o.resultMemory()); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, s.mirror.close())
	}
	s.internal = s.Session(SessionInfo{User: "system", App: "mainstem", Description: "the program itself"})
	s.wg.Go(s.write)
	s.wg.Go(s.follow)
	if s.o.Every > 0 {
		s.wg.Go(s.schedule)
	}
	return s, nil
}

// Close ends the automations, waits for what is being written, and releases the
// memory. Open results end. The log stays open. Closing twice is allowed.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.stop()
		s.wg.Wait()
		s.returnSerials()
		err = s.mirror.close()
	})
	return err
}

// Log returns the log that the tables are in.
func (s *Server) Log() mainstem.Log { return s.log }

// Name returns the name of the server.
func (s *Server) Name() string { return s.o.Name }

func (s *Server) now() time.Time { return s.o.Now() }

// SetPrimary says whether the server is the acting primary of its pair, as it is
// when it is opened: automations of the group primary_only run on no other.
func (s *Server) SetPrimary(acting bool) { s.primary.Store(acting) }

// Property returns what get_prop_value returns for name, and whether there is
// such a property.
func (s *Server) Property(name string) (string, bool) {
	switch name {
	case "Name":
		return s.o.Name, true
	case "ActingPrimary":
		if s.primary.Load() {
			return "TRUE", true
		}
		return "FALSE", true
	}
	v, ok := s.o.Properties[name]
	return v, ok
}

// TableInfo describes a table.
type TableInfo struct {
	Database, Name string
	Space          string // that holds the rows; of a table in memory, none
	Columns        []Column
	Virtual        bool // its rows are kept in memory only
	System         bool // the server fills it; statements only read it
	// Begins is a position in the log before all changes of the table, and behind those of an
	// earlier one of its name. 0: there was none, or it is not known.
	Begins mainstem.Position
}

func (t *table) info() TableInfo {
	i := TableInfo{Database: t.Database, Name: t.Name, Columns: append([]Column(nil), t.Columns...), Virtual: t.virtual, System: t.system, Begins: t.begins}
	if !t.virtual {
		i.Space = t.space
	}
	return i
}

// Tables returns all tables in the order of their names.
func (s *Server) Tables() []TableInfo {
	var out []TableInfo
	for _, t := range s.schema.Load().sorted() {
		out = append(out, t.info())
	}
	return out
}

// Table returns the table called name, "database.table" or a bare name as
// statements use it, and whether there is one.
func (s *Server) Table(name string) (TableInfo, bool) {
	if t := s.table(name); t != nil {
		return t.info(), true
	}
	return TableInfo{}, false
}

func (s *Server) table(name string) *table {
	sc := s.schema.Load()
	if t := sc.tables[name]; t != nil {
		return t
	}
	return sc.bare[name]
}

func validServerName(s string) bool { return osql.ValidName(s) }

// counters count what was done, for master.stats.
type counters struct {
	inserts, newInserts, dedups, updates, deletes atomic.Int64
}

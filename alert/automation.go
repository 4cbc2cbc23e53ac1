package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Event is what a row trigger runs on.
type Event uint8

// The events. All are before the row is written.
const (
	OnInsert   Event = iota + 1 // a row with a new key
	OnReinsert                  // an INSERT whose key is there already
	OnUpdate
	OnDelete
)

var eventNames = [...]string{"", "insert", "reinsert", "update", "delete"}

// String returns "insert", "reinsert", "update" or "delete"; "" for 0.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return "unknown event"
}

// Automation is something that happens by itself: in an interval, or to a row
// that is being written. It has either Every and Run, or On, Table and Row.
type Automation struct {
	Name        string
	Group       string // "primary_only": only on the acting primary
	Description string
	// Disabled automations wait to be enabled with [Server.Enable]. Whether one is
	// enabled is kept in the log; this is for when the log does not say.
	Disabled bool

	// Every is the interval, and Run what happens. The session is the automation's
	// own; an error is kept for [AutomationInfo] and logged.
	Every time.Duration
	Run   func(ctx context.Context, s *Session) error

	// On is the event, Table "database.table", and Row what happens, inside of the
	// transaction: it must be quick, and may be called again for the same row. Those
	// with a lower Priority come first. An error fails the statement.
	On       Event
	Table    string
	Priority int
	Row      func(e *RowEvent) error
}

func (a *Automation) validate() error {
	switch {
	case a.Name == "" || len(a.Name) > 64:
		return fmt.Errorf("the automation %.70q needs a name of 1 to 64 bytes", a.Name)
	case a.Every < 0:
		return fmt.Errorf("the automation %s has the interval %v", a.Name, a.Every)
	case a.Every > 0 && (a.Run == nil || a.Row != nil || a.On != 0):
		return fmt.Errorf("the automation %s has an interval: it needs Run, and neither On nor Row", a.Name)
	case a.Every == 0 && (a.Row == nil || a.Run != nil || a.On == 0 || a.On > OnDelete || a.Table == ""):
		return fmt.Errorf("the automation %s has no interval: it needs On, Table and Row", a.Name)
	}
	return nil
}

// RowEvent is a row that is being written.
type RowEvent struct {
	Now     time.Time
	Server  string
	Session SessionInfo // who writes
	// Old is the row that is there (not OnInsert), New the row that is given (not
	// OnDelete). A trigger may change New with Set, and OnReinsert Old, which then
	// is what will be there. Primary keys and serials cannot be changed.
	Old, New Row

	canceled bool
	journal  []string // OnUpdate: texts for one row of alerts.journal
}

// Cancel leaves everything as it is: the row is not written. Triggers that would
// come after this one do not run.
func (e *RowEvent) Cancel() { e.canceled = true }

// AutomationInfo describes an automation and what it has done since the server
// was opened.
type AutomationInfo struct {
	Name, Group, Description string
	Every                    time.Duration // 0 for row triggers
	On                       Event
	Table                    string
	Enabled                  bool

	Runs     int64         // times it ran; for row triggers, rows
	Failures int64         // runs that ended in an error
	Last     time.Time     // when it last began
	Took     time.Duration // the last run in an interval, by the wall clock
	Total    time.Duration // all of them
	Rows     int64         // that runs in an interval changed
	Err      error         // of the last run, if it failed
}

// automation is an automation at work.
type automation struct {
	Automation
	enabled atomic.Bool
	rowRuns atomic.Int64
	version mainstem.Version // of its record; of the writer
	session *Session

	mu  sync.Mutex // guards the rest
	due time.Time
	AutomationInfo
}

// automations is all of them. The list does not change.
type automations struct {
	list   []*automation
	byName map[string]*automation
	rows   map[eventOf][]*automation // the first first
	tick   sync.Mutex                // one Tick at a time
}

func newAutomations(own []Automation, start time.Time) *automations {
	as := &automations{byName: map[string]*automation{}, rows: map[eventOf][]*automation{}}
	for _, a := range slices.Concat(standardAutomations(), own) {
		as.byName[a.Name] = &automation{Automation: a}
	}
	for _, a := range as.byName {
		a.enabled.Store(!a.Disabled)
		a.due = start.Add(a.Automation.Every)
		as.list = append(as.list, a)
	}
	slices.SortFunc(as.list, func(a, b *automation) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Automation.Name, b.Automation.Name))
	})
	for _, a := range as.list {
		if a.Row != nil {
			database, table, _ := strings.Cut(a.Automation.Table, ".")
			k := eventOf{a.Automation.On, database, table}
			as.rows[k] = append(as.rows[k], a)
		}
	}
	return as
}

// eventOf is an event of a table.
type eventOf struct {
	event           Event
	database, table string
}

// on returns the row triggers of an event.
func (as *automations) on(e Event, t *table) []*automation {
	return as.rows[eventOf{e, t.Database, t.Name}]
}

// restore takes over what the log says about an automation.
func (as *automations) restore(name string, value []byte, version mainstem.Version) error {
	a := as.byName[name]
	if a == nil {
		return nil // one of another program, or of an older version
	}
	r := triggerRecord{Enabled: !a.Disabled}
	if value != nil {
		if err := json.Unmarshal(value, &r); err != nil {
			return err
		}
	}
	a.version = version
	a.enabled.Store(r.Enabled)
	return nil
}

// Automations returns all automations in the order of their names.
func (s *Server) Automations() []AutomationInfo {
	var out []AutomationInfo
	for _, a := range s.automations.list {
		out = append(out, a.info())
	}
	slices.SortFunc(out, func(a, b AutomationInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (a *automation) info() AutomationInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.AutomationInfo
	i.Name, i.Group, i.Description = a.Automation.Name, a.Automation.Group, a.Automation.Description
	i.Every, i.On, i.Table, i.Enabled = a.Automation.Every, a.Automation.On, a.Automation.Table, a.enabled.Load()
	if a.Row != nil {
		i.Runs = a.rowRuns.Load()
	}
	return i
}

// Enable enables or disables the automation called name, for all servers on the
// log and for good. One that does not exist is NotFound.
func (s *Server) Enable(ctx context.Context, name string, enabled bool) error {
	_, err := s.enable(ctx, name, enabled)
	return err
}

// EnableGroup does it for all automations of a group.
func (s *Server) EnableGroup(ctx context.Context, group string, enabled bool) error {
	_, err := s.enableGroup(ctx, group, enabled)
	return err
}

func (s *Server) enable(ctx context.Context, name string, enabled bool) (mainstem.Position, error) {
	a := s.automations.byName[name]
	if a == nil {
		return 0, mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no automation %s", name)
	}
	return s.enableAll(ctx, []*automation{a}, enabled)
}

func (s *Server) enableGroup(ctx context.Context, group string, enabled bool) (mainstem.Position, error) {
	var found []*automation
	for _, a := range s.automations.list {
		if a.Automation.Group == group {
			found = append(found, a)
		}
	}
	if found == nil {
		return 0, mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no group of automations %s", group)
	}
	return s.enableAll(ctx, found, enabled)
}

// enableAll returns the position of the last record that it wrote.
func (s *Server) enableAll(ctx context.Context, as []*automation, enabled bool) (mainstem.Position, error) {
	return s.do(ctx, light, func(t *tx) error {
		for _, a := range as {
			if err := t.describe(keyTrigger+a.Automation.Name, triggerRecord{enabled}, a.version); err != nil {
				return err
			}
		}
		return nil
	})
}

// schedule is the goroutine that runs the automations that are due.
func (s *Server) schedule() {
	ticker := time.NewTicker(s.o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			_ = s.Tick(s.ctx) // each failure is logged where it happens
		}
	}
}

// Tick runs the automations that are due by the server's clock, one after the
// other, in the order of priorities and names. The server calls it by itself every
// [Options.Every]. It returns what they failed with, joined.
func (s *Server) Tick(ctx context.Context) error {
	s.automations.tick.Lock()
	defer s.automations.tick.Unlock()
	var errs []error
	for _, a := range s.automations.list {
		if a.Run != nil && a.take(s.now(), s.primary.Load()) {
			errs = append(errs, s.runAutomation(ctx, a))
		}
	}
	return errors.Join(errs...)
}

// RunAutomation runs an automation with an interval now, whether it is due and
// enabled or not, and returns its error.
func (s *Server) RunAutomation(ctx context.Context, name string) error {
	a := s.automations.byName[name]
	if a == nil || a.Run == nil {
		return mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no automation %s with an interval", name)
	}
	s.automations.tick.Lock()
	defer s.automations.tick.Unlock()
	return s.runAutomation(ctx, a)
}

// take reports whether a is to run now, and then sets when it is due next.
func (a *automation) take(now time.Time, primary bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.due) {
		return false
	}
	a.due = now.Add(a.Automation.Every)
	return a.enabled.Load() && (primary || a.Automation.Group != GroupPrimary)
}

func (s *Server) runAutomation(ctx context.Context, a *automation) error {
	ss := a.session
	if ss == nil {
		ss = s.newSession(SessionInfo{User: "system", App: "automation", Description: a.Automation.Name})
		a.session = ss
	}
	before, began := ss.rows.Load(), time.Now()
	at := s.now()
	err := a.Run(ctx, ss)
	took := time.Since(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Runs++
	a.Last, a.Took, a.Err = at, took, err
	a.Total += took
	a.Rows += ss.rows.Load() - before
	if err != nil {
		a.Failures++
		if s.ctx.Err() == nil && ctx.Err() == nil {
			s.o.Logger.Error("alert: an automation failed", "automation", a.Automation.Name, "error", err)
		}
		return fmt.Errorf("%s: %w", a.Automation.Name, err)
	}
	return nil
}

// fire runs the row triggers of an event. ran reports whether there were some.
func (t *tx) fire(on Event, tab *table, e *RowEvent) (ran bool, err error) {
	for _, a := range t.s.automations.on(on, tab) {
		if !a.enabled.Load() || a.Automation.Group == GroupPrimary && !t.s.primary.Load() {
			continue
		}
		ran = true
		a.rowRuns.Add(1)
		if err := a.Row(e); err != nil {
			return ran, fmt.Errorf("the trigger %s: %w", a.Automation.Name, err)
		}
		if e.canceled {
			break
		}
	}
	return ran, nil
}

// kind returns what catalog.triggers calls the kind of an automation.
func (a *automation) kind() string {
	if a.Row == nil {
		return "temporal: every " + a.Automation.Every.String()
	}
	return strings.TrimSpace("before " + a.Automation.On.String() + " on " + a.Automation.Table)
}

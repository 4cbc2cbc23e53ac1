package saga

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

// Simulation runs the sagas of one type in virtual time, without a log, a bus and goroutines. It is
// for tests. Its methods return the commands that are sent, without the IDs of an embedded
// [command.Base]. A command counts as carried out at the next call, unless [Simulation.Refuse]
// refuses it. A Simulation belongs to one goroutine.
type Simulation struct {
	saga  *Saga
	now   time.Time
	sagas map[string]*instance  // by ID
	out   map[string][]numbered // messages that were sent and are not carried out yet, by ID
	stats Stats
}

// Simulate returns a simulation of s whose time is start.
func Simulate(s *Saga, start time.Time) *Simulation {
	return &Simulation{saga: s, now: start, sagas: make(map[string]*instance), out: make(map[string][]numbered), stats: Stats{Saga: s.name}}
}

// Now returns the virtual time.
func (s *Simulation) Now() time.Time { return s.now }

// load returns a saga, like [work.load].
func (s *Simulation) load(_ context.Context, id string) (*instance, error) {
	in := s.sagas[id]
	if in == nil {
		in = &instance{id: id}
		in.pending = func(context.Context) ([]numbered, error) {
			return slices.DeleteFunc(slices.Clone(s.out[id]), func(m numbered) bool { return slices.Contains(in.gone, m.n) }), nil
		}
		in.floor = func(context.Context, string) (uint64, error) { return 0, nil }
		s.sagas[id] = in
	}
	return in, nil
}

// Handle handles an event, given as its Go value and as recorded, without data. It returns the
// commands that are sent. After an error the simulation must not be used any more.
func (s *Simulation) Handle(v any, r event.Recorded) ([]command.Command, error) {
	s.carryOut()
	if err := s.saga.route(context.Background(), s.load, v, r, 0, s.now, &s.stats); err != nil {
		return nil, err
	}
	return s.collect()
}

// Advance lets d pass, and handles the timeouts that are due by then, in the order in which they
// are due, including those that are set meanwhile. It returns the commands that are sent. A command
// of one timeout counts as carried out before the next timeout is handled. After an error the
// simulation must not be used any more.
func (s *Simulation) Advance(d time.Duration) ([]command.Command, error) {
	until := s.now.Add(d)
	var all []command.Command
	s.carryOut()
	for {
		in, name := s.due(until)
		if in == nil {
			s.now = until
			return all, nil
		}
		s.carryOut()
		if due := in.row.Timeouts[name]; due.After(s.now) {
			s.now = due
		}
		delete(in.row.Timeouts, name)
		if err := in.handle(context.Background(), timeoutTask(s.saga, name), s.now); err != nil {
			return all, fmt.Errorf("saga %s: timeout %s: %w", in.id, name, err)
		}
		sent, err := s.collect()
		all = append(all, sent...)
		if err != nil {
			return all, err
		}
	}
}

// due returns the saga and the name of the first timeout that is due at until; nil if there is
// none.
func (s *Simulation) due(until time.Time) (first *instance, name string) {
	var at time.Time
	for _, id := range slices.Sorted(maps.Keys(s.sagas)) {
		in := s.sagas[id]
		for _, n := range slices.Sorted(maps.Keys(in.row.Timeouts)) {
			if due := in.row.Timeouts[n]; !due.After(until) && (first == nil || due.Before(at)) {
				first, name, at = in, n, due
			}
		}
	}
	return first, name
}

// Refuse refuses a command or compensation that the last event, timeout or refusal has sent, and
// returns the commands that are sent as a consequence. Of several equal commands it is the first
// one. Those that the saga has sent before it are carried out. If it is a command, those after it
// are withdrawn; if it is a compensation, those after it stay.
func (s *Simulation) Refuse(cmd command.Command, cause error) ([]command.Command, error) {
	for _, id := range slices.Sorted(maps.Keys(s.out)) {
		for i, m := range s.out[id] {
			sent, err := s.saga.decode(&m.message, "")
			if err != nil {
				return nil, err
			}
			if !reflect.DeepEqual(bare(sent), bare(cmd)) {
				continue
			}
			in := s.sagas[id]
			for _, before := range s.out[id][:i] {
				s.finish(in, before)
			}
			s.out[id] = s.out[id][i:]
			if err := in.refused(context.Background(), s.now, m.n, m.message, cause); err != nil {
				return nil, err
			}
			return s.collect()
		}
	}
	return nil, fmt.Errorf("command %s %+v was not sent by the last event, timeout or refusal", cmd.CommandType(), cmd)
}

// carryOut carries out all messages that were sent.
func (s *Simulation) carryOut() {
	for _, id := range slices.Sorted(maps.Keys(s.out)) {
		for _, m := range s.out[id] {
			s.finish(s.sagas[id], m)
		}
	}
	clear(s.out)
}

// finish carries out one message.
func (s *Simulation) finish(in *instance, m numbered) {
	if m.Kind == kindUndo {
		in.undone(s.now, commandID(in.row.Saga, in.row.Key, m.n), m.message, nil)
	}
}

// collect applies sends and removals as a commit would, and returns the commands that were sent.
func (s *Simulation) collect() (cmds []command.Command, err error) {
	for _, id := range slices.Sorted(maps.Keys(s.sagas)) {
		in := s.sagas[id]
		s.out[id] = slices.DeleteFunc(s.out[id], func(m numbered) bool { return slices.Contains(in.gone, m.n) })
		for _, m := range in.sends {
			cmd, err := s.saga.decode(&m.message, "")
			if err != nil {
				return nil, err
			}
			s.out[id] = append(s.out[id], m)
			cmds = append(cmds, bare(cmd))
		}
		in.sends, in.gone, in.entries = nil, nil, nil
	}
	return cmds, nil
}

// bare returns a copy of cmd without the IDs of an embedded command.Base.
func bare(cmd command.Command) command.Command {
	v := reflect.ValueOf(cmd)
	c := reflect.New(v.Type()).Elem()
	if c.Set(v); v.Kind() == reflect.Pointer && !v.IsNil() {
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(v.Elem())
	}
	if base := baseField(c); base != nil {
		base.CommandID, base.CorrelationID, base.CausationID = "", "", ""
	}
	return c.Interface().(command.Command)
}

// Finish carries out the commands that were sent and not refused, compensations included.
func (s *Simulation) Finish() { s.carryOut() }

// Get returns the saga with a key; false if there is none.
func (s *Simulation) Get(key string) (Instance, bool) {
	in := s.sagas[idOf(s.saga.name, key)]
	if in == nil || !in.found {
		return Instance{}, false
	}
	return instanceOf(&in.row), true
}

// Compensating returns the number of sagas that are compensating.
func (s *Simulation) Compensating() (n int) {
	for _, in := range s.sagas {
		if in.row.Status == Compensating {
			n++
		}
	}
	return n
}

// Stats returns the numbers of events that were handled, ignored and early.
func (s *Simulation) Stats() Stats { return s.stats }

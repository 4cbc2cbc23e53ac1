package actor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/actor"
)

// ensemble is a model of a supervisor's children: which of them run, in which order, and the
// starts, stops and messages that the actors should have recorded.
type ensemble struct {
	strategy actor.Strategy
	children []*member
	notes    []string
}

type member struct {
	name    string
	restart actor.Restart
	up      bool
	gone    bool
	sent    int // messages it should have handled
}

func (e *ensemble) note(s string) { e.notes = append(e.notes, s) }

// end applies the end of m to the model, by a crash or normally.
func (e *ensemble) end(m *member, crash bool) {
	e.note("-" + m.name)
	if m.restart == actor.Temporary || m.restart == actor.Transient && !crash {
		m.up = false
		m.gone = m.restart == actor.Temporary
		return
	}
	group := []*member{m}
	switch e.strategy {
	case actor.AllForOne:
		group = e.children
	case actor.RestForOne:
		group = e.children[slices.Index(e.children, m):]
	}
	group = slices.DeleteFunc(slices.Clone(group), func(o *member) bool { return !o.up })
	for _, o := range slices.Backward(group) {
		if o != m {
			e.note("-" + o.name)
		}
		if o.restart == actor.Temporary {
			o.up, o.gone = false, true
		}
	}
	for _, o := range group {
		if o.up {
			e.note("+" + o.name)
		}
	}
}

// TestSupervisionModel lets random children of random supervisors crash, end,
// be disabled, enabled, removed and added, with messages in between, and compares
// starts, stops and handled messages with the model.
func TestSupervisionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any // a panic of rapid, which must reach the goroutine of rapid
		synctest.Test(t, func(t *testing.T) {
			defer func() { failure = recover() }()
			superviseRandomly(t, rt)
		})
		if failure != nil {
			panic(failure)
		}
	})
}

func superviseRandomly(t *testing.T, rt *rapid.T) {
	node, st := open(t), newStage()
	model := &ensemble{strategy: actor.Strategy(rapid.IntRange(0, 2).Draw(rt, "strategy"))}
	s := supervise(t, node, &actor.SupervisorOptions{Strategy: model.strategy, Limit: actor.Limit{Intensity: 1 << 20}})
	handled := make(map[string]int)
	added := 0
	add := func() {
		m := &member{name: fmt.Sprint("n", added), up: true, restart: actor.Restart(rapid.IntRange(0, 2).Draw(rt, "restart"))}
		added++
		if err := s.Start(t.Context(), st.child(m.name, &actor.ChildOptions{Restart: m.restart})); err != nil {
			rt.Fatal(err)
		}
		model.children = append(model.children, m)
		model.note("+" + m.name)
	}
	for range rapid.IntRange(2, 5).Draw(rt, "children") {
		add()
	}
	for range rapid.IntRange(1, 25).Draw(rt, "steps") {
		model.children = slices.DeleteFunc(model.children, func(m *member) bool { return m.gone })
		if len(model.children) == 0 {
			add()
		}
		m := rapid.SampledFrom(model.children).Draw(rt, "child")
		step(t, rt, s, model, m, handled, add)
		synctest.Wait()
		if got, want := st.take(), strings.Join(model.notes, " "); got != want {
			rt.Fatalf("notes %q, want %q", got, want)
		}
		model.notes = nil
		for _, m := range model.children {
			if handled[m.name] != m.sent {
				rt.Fatalf("%s handled %d messages, want %d", m.name, handled[m.name], m.sent)
			}
		}
	}
}

// step does one random thing to a child and applies it to the model.
func step(t *testing.T, rt *rapid.T, s actor.Supervisor, model *ensemble, m *member, handled map[string]int, add func()) {
	kind := rapid.SampledFrom([]string{"crash", "crash", "panic", "end", "disable", "enable", "remove", "add"}).Draw(rt, "step")
	count := func(*actor.Context[job]) error { handled[m.name]++; return nil }
	var err error
	switch {
	case kind == "add":
		add()
	case kind == "disable" && m.up:
		err = s.Disable(t.Context(), m.name)
		m.up = false
		model.note("-" + m.name)
	case kind == "enable" && !m.up:
		err = s.Enable(t.Context(), m.name)
		m.up = true
		model.note("+" + m.name)
	case kind == "remove":
		err = s.Remove(t.Context(), m.name)
		if m.up {
			model.note("-" + m.name)
		}
		m.gone = true
	case !m.up:
	default:
		end := map[string]job{
			"crash": crash,
			"panic": func(*actor.Context[job]) error { panic("random") },
			"end":   func(c *actor.Context[job]) error { c.Stop(nil); return nil },
		}[kind]
		if end == nil {
			return
		}
		// Messages before the failing one are handled; those after it outlive a restart.
		r := childRef(t, s, m.name)
		hold := make(chan struct{})
		send(t, r, func(*actor.Context[job]) error { <-hold; return nil }, count, end, count, count)
		model.end(m, kind != "end")
		if m.sent++; m.up {
			m.sent += 2
		}
		close(hold)
	}
	if err != nil {
		rt.Fatalf("%s %s: %v", kind, m.name, err)
	}
}

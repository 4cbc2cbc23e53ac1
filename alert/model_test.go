package alert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// alertModel is an alert as the model keeps it.
type alertModel struct {
	id, node, summary            string
	serial, tally, severity, typ int64
	first, last, state           int64
	expire                       int64
}

// TestModel compares random programs with a model: inserts and reinserts,
// updates, deletes, time that passes, and restarts.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := new(testkit.Clock)
		log := model.New(nil)
		defer func() { _ = log.Close() }()
		o := &Options{Now: c.Now, Every: -1, BatchRows: rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "batch")}
		s, err := Open(t.Context(), log, o)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		m := &program{alerts: map[string]*alertModel{}, clock: c}
		actions := map[string]func(*rapid.T){
			"": func(rt *rapid.T) { m.compare(rt, t, s) },
			"insert": func(rt *rapid.T) {
				m.insert(rt, t, s)
			},
			"update": func(rt *rapid.T) {
				n, sev := rapid.IntRange(0, 2).Draw(rt, "node"), rapid.Int64Range(0, 5).Draw(rt, "severity")
				expire := rapid.SampledFrom([]int64{0, 0, 90}).Draw(rt, "expire")
				r := exec(t, s, "update alerts.status set Severity = ?, ExpireTime = ? where Node = ?", sev, expire, fmt.Sprint("n", n))
				changed := int64(0)
				for _, a := range m.alerts {
					if a.node == fmt.Sprint("n", n) {
						a.severity, a.expire, a.state = sev, expire, c.Now().Unix()
						changed++
					}
				}
				if r.Affected != changed {
					rt.Fatalf("an update changed %d rows, want %d", r.Affected, changed)
				}
			},
			"delete": func(rt *rapid.T) {
				id := fmt.Sprint("id", rapid.IntRange(0, 5).Draw(rt, "id"))
				exec(t, s, "delete from alerts.status where Identifier = ?", id)
				delete(m.alerts, id)
			},
			"time": func(rt *rapid.T) {
				c.Advance(time.Duration(rapid.IntRange(1, 200).Draw(rt, "seconds")) * time.Second)
			},
			"generic_clear": func(*rapid.T) { m.run(t, s, "generic_clear", m.genericClear) },
			"expire":        func(*rapid.T) { m.run(t, s, "expire", m.expire) },
			"delete_clears": func(*rapid.T) { m.run(t, s, "delete_clears", m.deleteClears) },
			"restart": func(rt *rapid.T) {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				if s, err = Open(t.Context(), log, o); err != nil {
					rt.Fatal(err)
				}
			},
		}
		rt.Repeat(actions)
	})
}

type program struct {
	alerts map[string]*alertModel
	serial int64
	clock  *testkit.Clock
}

func (m *program) insert(rt *rapid.T, t *testing.T, s *Server) {
	id := fmt.Sprint("id", rapid.IntRange(0, 5).Draw(rt, "id"))
	node := fmt.Sprint("n", rapid.IntRange(0, 2).Draw(rt, "node"))
	sev, typ := rapid.Int64Range(0, 5).Draw(rt, "severity"), rapid.Int64Range(1, 2).Draw(rt, "type")
	summary, now := rapid.SampledFrom([]string{"", "a", "it's"}).Draw(rt, "summary"), m.clock.Now().Unix()
	forced := rapid.Bool().Draw(rt, "updating")
	text := "insert into alerts.status (Identifier, Node, Severity, Type, Summary) values (?, ?, ?, ?, '" + strings.ReplaceAll(summary, "'", "''") + "')"
	if forced {
		text += " updating (Severity)"
	}
	exec(t, s, text, id, node, sev, typ)
	a := m.alerts[id]
	if a == nil {
		m.serial++
		m.alerts[id] = &alertModel{id: id, node: node, summary: summary, serial: m.serial, tally: 1, severity: sev, typ: typ, first: now, last: now, state: now}
		return
	}
	a.tally++
	a.summary, a.last, a.state = summary, now, now
	if a.severity == 0 || forced {
		a.severity = sev
	}
}

func (m *program) run(t *testing.T, s *Server, name string, do func()) {
	if err := s.RunAutomation(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	do()
}

func (m *program) genericClear() {
	var cleared []*alertModel
	for _, p := range m.alerts {
		for _, r := range m.alerts {
			if p.typ == 1 && p.severity > 0 && r.typ == 2 && r.severity > 0 && p.node == r.node && p.last < r.last {
				cleared = append(cleared, p)
				break
			}
		}
	}
	for _, r := range m.alerts {
		if r.typ == 2 && r.severity > 0 {
			cleared = append(cleared, r)
		}
	}
	for _, a := range cleared {
		a.severity, a.state = 0, m.clock.Now().Unix()
	}
}

func (m *program) expire() {
	for _, a := range m.alerts {
		if a.expire > 0 && a.severity > 0 && a.last < m.clock.Now().Unix()-a.expire {
			a.severity, a.state = 0, m.clock.Now().Unix()
		}
	}
}

func (m *program) deleteClears() {
	maps.DeleteFunc(m.alerts, func(_ string, a *alertModel) bool { return a.severity == 0 && a.state < m.clock.Now().Unix()-120 })
}

func (m *program) compare(rt *rapid.T, t *testing.T, s *Server) {
	var want [][]string
	for _, id := range slices.Sorted(maps.Keys(m.alerts)) {
		a := m.alerts[id]
		want = append(want, strings.Split(fmt.Sprint(a.id, "|", a.serial, "|", a.tally, "|", a.node, "|", a.summary, "|", a.severity, "|", a.typ, "|", a.first, "|", a.last, "|", a.state), "|"))
	}
	got := query(t, s, "select Identifier, Serial, Tally, Node, Summary, Severity, Type, FirstOccurrence, LastOccurrence, StateChange from alerts.status order by Identifier")
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		rt.Fatalf("the table differs:\n got %q\nwant %q", got, want)
	}
	checkRecent(t, s)
}

package alert

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mapServer is an honest server, for the statements of the suite only.
type mapServer struct {
	mu   sync.Mutex
	rows [Clusters]map[string]row // by Identifier, under mu
}

func newMapServer() *mapServer {
	s := &mapServer{}
	for i := range s.rows {
		s.rows[i] = map[string]row{}
	}
	return s
}

var (
	literals = regexp.MustCompile(`'(?:[^']|'')*'|\b\d+\b`)
	inGroup  = regexp.MustCompile(`AlertGroup  = '([^']*)'`)
	title    = regexp.MustCompile(`Summary ='((?:[^']|'')*)'`)
)

func unquote(text string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(text, "'"), "'"), "''", "'")
}

func (s *mapServer) Ask(_ context.Context, statement string) ([]Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]Answer, Clusters)
	for i := range answers {
		answers[i] = s.askLocked(s.rows[i], statement)
	}
	return answers, nil
}

func (s *mapServer) askLocked(rows map[string]row, statement string) (a Answer) {
	if _, values, ok := strings.Cut(statement, "VALUES"); ok {
		r := row{"Tally": 1}
		for i, v := range literals.FindAllString(values, -1) {
			r[columns[i]] = unquote(v)
			if v[0] != '\'' {
				var n int64
				fmt.Sscan(v, &n)
				r[columns[i]] = n
			}
		}
		if old := rows[r["Identifier"].(string)]; old != nil {
			old["Tally"] = old["Tally"].(int) + 1
		} else {
			rows[r["Identifier"].(string)] = r
		}
		return Answer{Affected: 1}
	}
	group := inGroup.FindStringSubmatch(statement)[1]
	for id, r := range rows {
		if r["AlertGroup"] != group {
			continue
		}
		switch verb, _, _ := strings.Cut(statement, " "); verb {
		case "DELETE":
			delete(rows, id)
		case "UPDATE":
			r["Summary"] = unquote(title.FindStringSubmatch(statement)[1])
		case "SELECT":
			a.Rows = append(a.Rows, maps.Clone(r))
		}
		a.Affected++
	}
	return a
}

// change lets a cheat have the rows for itself.
func (s *mapServer) change(do func(rows [Clusters]map[string]row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.rows)
}

func (s *mapServer) Close() error { return nil }

// cheat changes the statements or the answers of an honest server.
type cheat struct {
	*mapServer
	ask func(s *mapServer, statement string) ([]Answer, error)
}

func (c *cheat) Ask(_ context.Context, statement string) ([]Answer, error) {
	return c.ask(c.mapServer, statement)
}

func factory(open func() Server) Factory {
	return Factory{Name: "mine", Durability: suite.Memory, ScaleAlerts: 300, Open: func(context.Context, *suite.Env, string) (Server, error) { return open(), nil }}
}

func rounds(t *testing.T, e suite.Entry) error {
	t.Helper()
	return runnertest.Try(t, &e, 2, 3)
}

func TestHonest(t *testing.T) {
	for _, e := range Entries(factory(func() Server { return newMapServer() })) {
		t.Run(e.Case, func(t *testing.T) {
			if err := rounds(t, e); err != nil {
				t.Error(err)
			}
		})
	}
}

// honest asks the server below.
func honest(s *mapServer, statement string) ([]Answer, error) {
	return s.Ask(context.Background(), statement)
}

func isInsert(statement string) bool { return strings.HasPrefix(statement, "INSERT") }

func isSelect(statement string) bool { return strings.HasPrefix(statement, "SELECT") }

var bothSelects = []string{"select-10x100/single", "select-100x10/multi"}

func TestCheatsAreCaught(t *testing.T) {
	stale := &sync.Map{}
	for _, c := range []struct {
		name  string
		ask   func(s *mapServer, statement string) ([]Answer, error)
		cases []string
	}{
		{"inserts nothing", func(s *mapServer, statement string) ([]Answer, error) {
			if isInsert(statement) {
				return []Answer{{Affected: 1}, {Affected: 1}}, nil
			}
			return honest(s, statement)
		}, []string{"insert/single", "insert/multi", "insert-again/single", "select-10x100/single", "scale/insert"}},
		{"inserts into one cluster", func(s *mapServer, statement string) ([]Answer, error) {
			answers, err := honest(s, statement)
			if isInsert(statement) {
				s.change(func(rows [Clusters]map[string]row) { clear(rows[1]) })
			}
			return answers, err
		}, []string{"insert/single", "insert-again/multi", "select-100x10/single"}},
		{"does not count again", func(s *mapServer, statement string) ([]Answer, error) {
			answers, err := honest(s, statement)
			s.change(func(rows [Clusters]map[string]row) {
				for i := range rows {
					for _, r := range rows[i] {
						r["Tally"] = 1
					}
				}
			})
			return answers, err
		}, []string{"insert-again/single", "insert-again/multi"}},
		{"selects what was", func(s *mapServer, statement string) ([]Answer, error) {
			if !isSelect(statement) {
				return honest(s, statement)
			}
			if known, ok := stale.Load(statement); ok {
				return known.([]Answer), nil
			}
			answers, err := honest(s, statement)
			stale.Store(statement, answers)
			return answers, err
		}, bothSelects},
		{"selects a part", func(s *mapServer, statement string) ([]Answer, error) {
			answers, err := honest(s, statement)
			for i := range answers {
				answers[i].Rows = answers[i].Rows[:len(answers[i].Rows)/2]
			}
			return answers, err
		}, append(bothSelects, "insert/single")},
		{"leaves out a column", func(s *mapServer, statement string) ([]Answer, error) {
			answers, err := honest(s, statement)
			for i := range answers {
				for _, r := range answers[i].Rows {
					delete(r, "ExtendedAttr")
				}
			}
			return answers, err
		}, bothSelects},
		{"asks one cluster", func(s *mapServer, statement string) ([]Answer, error) {
			answers, err := honest(s, statement)
			return answers[:1], err
		}, append(bothSelects, "insert/multi")},
	} {
		for _, e := range Entries(factory(func() Server { return &cheat{mapServer: newMapServer(), ask: c.ask} })) {
			if !slices.Contains(c.cases, e.Case) {
				continue
			}
			t.Run(c.name+"/"+e.Case, func(t *testing.T) {
				if err := rounds(t, e); err == nil {
					t.Error("a server that cheats passed the check")
				} else {
					t.Log(err)
				}
			})
		}
	}
}

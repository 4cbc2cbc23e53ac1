package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records starts and stops.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// take returns the records since the last call.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := strings.Join(j.lines, " ")
	j.lines = nil
	return all
}

// noted is an actor that records its start and its end, and calls its messages. With fail it does
// not start.
type noted struct {
	j    *journal
	name string
	fail error
}

type order func(c *actor.Context[order]) error

func (n *noted) Start(*actor.Context[order]) error {
	if n.fail != nil {
		return n.fail
	}
	n.j.add("+" + n.name)
	return nil
}

func (n *noted) Receive(c *actor.Context[order], m order) error { return m(c) }

func (n *noted) Stop(*actor.Context[order], error) {
	if n.fail == nil {
		n.j.add("-" + n.name)
	}
}

func child(j *journal, name string, o *actor.ChildOptions) actor.Child {
	return actor.NewChild(name, func() *noted { return &noted{j: j, name: name} }, o)
}

// simple is an app of one child of the same name.
func simple(j *journal, name string, needs ...string) app.App {
	return app.App{Name: name, Needs: needs, Children: []actor.Child{child(j, name, nil)}}
}

func start(t testing.TB, s actor.Spawner, o *app.Options, apps ...app.App) *app.Set {
	t.Helper()
	set, err := app.Start(s, o, apps...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func running(t testing.TB, set *app.Set) string {
	t.Helper()
	infos, err := set.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range infos {
		if i.Running {
			names = append(names, i.Name)
		}
	}
	return strings.Join(names, " ")
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		var j journal
		base := app.App{
			Name: "base", Children: []actor.Child{child(&j, "b1", nil), child(&j, "b2", nil)},
			Start: func() error { j.add("+base"); return nil }, Stop: func() { j.add("-base") },
		}
		set := start(t, node, nil, simple(&j, "web", "store", "log"), simple(&j, "store", "base"), simple(&j, "log", "base"), base)
		expect(t, "start", j.take(), "+base +b1 +b2 +store +log +web")
		expect(t, "running", running(t, set), "base store log web")

		if err := set.Stop(t.Context(), "store"); err != nil {
			t.Fatal(err)
		}
		expect(t, "stop of store", j.take(), "-web -store")
		expect(t, "running", running(t, set), "base log")
		if err := errors.Join(set.Stop(t.Context(), "web"), set.Start(t.Context(), "web"), set.Start(t.Context(), "web")); err != nil {
			t.Fatal(err)
		}
		expect(t, "start of web", j.take(), "+store +web")
		if err := node.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "stop of the node", j.take(), "-web -store -log -b2 -b1 -base")
	})
}

func TestOnlyWhatIsNeededStarts(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		var j journal
		apps := []app.App{simple(&j, "a"), simple(&j, "b"), simple(&j, "c", "a"), simple(&j, "d", "c", "b")}
		set := start(t, node, &app.Options{Only: []string{"c"}}, apps...)
		expect(t, "start", j.take(), "+a +c")
		if err := set.Start(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		expect(t, "start of d", j.take(), "+b +d")
		set.Ref().Stop()
		actortest.ExpectEnd(t, set.Ref(), actor.Shutdown)
		expect(t, "stop", j.take(), "-d -b -c -a")
	})
}

func TestModes(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		mode  app.Mode
		crash bool
		want  string // what runs when the app has ended
	}{
		{app.Permanent, true, ""}, {app.Permanent, false, ""},
		{app.Transient, true, ""}, {app.Transient, false, "rest"},
		{app.Temporary, true, "rest"}, {app.Temporary, false, "rest"},
	} {
		actortest.Run(t, func(t *testing.T, node *actor.Node) {
			var j journal
			weak := app.App{
				Name: "weak", Mode: c.mode,
				Supervisor: actor.SupervisorOptions{AutoStop: actor.AnySignificant},
				Children: []actor.Child{child(&j, "weak", &actor.ChildOptions{
					Options: actor.Options{Name: "weak"}, Restart: actor.Transient, Significant: true, Limit: actor.Limit{Intensity: -1},
				})},
			}
			set := start(t, node, nil, simple(&j, "rest"), weak)
			down := actortest.Watch(t, node, set.Ref())
			r, err := actor.Lookup[order](node, "weak")
			if err != nil {
				t.Fatal(err)
			}
			actortest.Send(t, r, func(c2 *actor.Context[order]) error {
				if c.crash {
					return boom
				}
				c2.Stop(actor.Normal)
				return nil
			})
			synctest.Wait()
			if c.want == "" {
				d := down.Next()
				if !errors.Is(d.Reason, actor.Exceeded) || c.crash && !errors.Is(d.Reason, boom) {
					t.Errorf("%s, crash %v: ended for %v, want exceeded", c.mode, c.crash, d.Reason)
				}
				expect(t, "journal", j.take(), "+rest +weak -weak -rest")
				return
			}
			expect(t, "running", running(t, set), c.want)
			if err := set.Start(t.Context(), "weak"); err != nil {
				t.Fatal(err)
			}
			expect(t, "running again", running(t, set), "rest weak")
			if sup, err := set.App(t.Context(), "weak"); err != nil {
				t.Error(err)
			} else if children, err := sup.Children(t.Context()); err != nil || len(children) != 1 {
				t.Errorf("children %v, %v", children, err)
			}
		})
	}
}

// A significant child that is not restarted ends its app. If it failed, the app has.
func TestFailureOfASignificantChildIsThatOfTheApp(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		stop   actor.AutoStop
		failed bool
	}{{actor.AnySignificant, true}, {actor.AnySignificant, false}, {actor.AllSignificant, true}, {actor.AllSignificant, false}} {
		actortest.Run(t, func(t *testing.T, node *actor.Node) {
			var j journal
			significant := func(name string) actor.Child {
				return child(&j, name, &actor.ChildOptions{Options: actor.Options{Name: name}, Restart: actor.Temporary, Significant: true})
			}
			weak := app.App{
				Name: "weak", Mode: app.Transient, Supervisor: actor.SupervisorOptions{AutoStop: c.stop},
				Children: []actor.Child{significant("first"), significant("last")},
			}
			set := start(t, node, nil, simple(&j, "rest"), weak)
			down := actortest.Watch(t, node, set.Ref())
			end := func(name string, reason error) {
				r, err := actor.Lookup[order](node, name)
				if err != nil {
					t.Fatal(err)
				}
				actortest.Send(t, r, func(*actor.Context[order]) error { return reason })
				synctest.Wait()
			}
			reason := actor.Normal
			if c.failed {
				reason = boom
			}
			end("first", reason)
			if c.stop == actor.AllSignificant {
				expect(t, "running", running(t, set), "rest weak")
				end("last", actor.Normal)
			}
			if !c.failed {
				expect(t, "running", running(t, set), "rest")
				return
			}
			if d := down.Next(); !errors.Is(d.Reason, boom) || !strings.Contains(d.Reason.Error(), "significant child first") {
				t.Errorf("AutoStop %d: all apps ended for %v, want the failure of first", c.stop, d.Reason)
			}
		})
	}
}

// An app that ran on without one that it needs is restarted when that one is started, so that it
// stops before it.
func TestStartOfWhatHadEndedRestartsThoseThatNeedIt(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		var j journal
		base := app.App{Name: "base", Mode: app.Temporary, Children: []actor.Child{child(&j, "base", &actor.ChildOptions{
			Options: actor.Options{Name: "base"}, Limit: actor.Limit{Intensity: -1},
		})}}
		set := start(t, node, nil, base, simple(&j, "other"), simple(&j, "mid", "base"), simple(&j, "top", "mid"))
		r, err := actor.Lookup[order](node, "base")
		if err != nil {
			t.Fatal(err)
		}
		actortest.Send(t, r, func(*actor.Context[order]) error { return errors.New("boom") })
		synctest.Wait()
		expect(t, "running", running(t, set), "other mid top")
		expect(t, "journal", j.take(), "+base +other +mid +top -base")
		if err := set.Start(t.Context(), "base"); err != nil {
			t.Fatal(err)
		}
		expect(t, "start", j.take(), "-top -mid +base +mid +top")
		if err := node.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, "stop", j.take(), "-top -mid -base -other")
	})
}

func TestAppThatDoesNotStartStopsThoseBefore(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		var j journal
		boom := errors.New("boom")
		bad := app.App{Name: "bad", Needs: []string{"good"}, Start: func() error { return boom }, Stop: func() { j.add("-bad") }, Children: []actor.Child{child(&j, "bad", nil)}}
		if _, err := app.Start(node, nil, bad, simple(&j, "good")); !errors.Is(err, boom) {
			t.Errorf("Start: %v, want boom", err)
		}
		expect(t, "journal", j.take(), "+good -good")
		if node.Len() != 0 {
			t.Errorf("%d actors are left", node.Len())
		}
	})
}

func TestAppsThatCannotBeSorted(t *testing.T) {
	node := actortest.Node(t)
	var j journal
	for want, apps := range map[string][]app.App{
		"a needs b needs c needs a": {simple(&j, "a", "b"), simple(&j, "b", "c"), simple(&j, "c", "a")},
		"a needs a":                 {simple(&j, "a", "a")},
		`"a" needs "x"`:             {simple(&j, "a", "x")},
		"name of its own":           {simple(&j, "a"), simple(&j, "a")},
		`app ""`:                    {simple(&j, "")},
		"unknown mode":              {{Name: "a", Mode: 3}},
	} {
		_, err := app.Start(node, nil, apps...)
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want Invalid with %s", err, want)
		}
	}
	if _, err := app.Start(node, &app.Options{Only: []string{"x"}}, simple(&j, "a")); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Only x: %v, want NotFound", err)
	}
	set := start(t, node, nil, simple(&j, "a"))
	if err := errors.Join(set.Start(t.Context(), "x")); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Start x: %v, want NotFound", err)
	}
	if err := set.Stop(t.Context(), "x"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Stop x: %v, want NotFound", err)
	}
}

// For random needs, starts and stops, no app runs without one that it needs.
func TestNoAppRunsWithoutWhatItNeeds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		node, err := actor.Open("graph", nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer node.Close()
		var mu sync.Mutex
		up := make(map[string]bool)
		var wrong []string
		n := rapid.IntRange(1, 7).Draw(rt, "apps")
		var apps []app.App
		needs := make(map[string][]string)
		for i := range n {
			name := fmt.Sprint("app", i)
			for k := range i {
				if rapid.Bool().Draw(rt, "needs") {
					needs[name] = append(needs[name], fmt.Sprint("app", k))
				}
			}
			check := func(what string, value bool) {
				mu.Lock()
				defer mu.Unlock()
				up[name] = value
				for other, isUp := range up {
					for _, need := range needs[other] {
						if isUp && !up[need] {
							wrong = append(wrong, what+" "+name+": "+other+" without "+need)
						}
					}
				}
			}
			apps = append(apps, app.App{
				Name: name, Needs: needs[name],
				Start: func() error { check("start", true); return nil }, Stop: func() { check("stop", false) },
			})
		}
		apps = rapid.Permutation(apps).Draw(rt, "order")
		var only []string
		if rapid.Bool().Draw(rt, "only") {
			only = []string{apps[0].Name}
		}
		set, err := app.Start(node, &app.Options{Only: only}, apps...)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			name := rapid.SampledFrom(apps).Draw(rt, "app").Name
			do := set.Start
			if rapid.Bool().Draw(rt, "stop") {
				do = set.Stop
			}
			if err := do(context.Background(), name); err != nil {
				rt.Fatal(err)
			}
		}
		if err := node.Stop(context.Background()); err != nil {
			rt.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 || slices.ContainsFunc(apps, func(a app.App) bool { return up[a.Name] }) {
			rt.Fatalf("%v, still up %v", wrong, up)
		}
	})
}

package cron_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/cron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, s actor.Spawner, jobs ...cron.Job) cron.Cron {
	t.Helper()
	c, err := cron.Start(s, nil, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clock(t time.Time) string { return t.UTC().Format("02 15:04:05") }

// tell is a job that sends the time at which it was due to a probe.
func tell(name, spec string, p *actortest.Probe[string]) cron.Job {
	j := cron.Send(name, spec, p.Ref(), func(due time.Time) string { return name + " " + clock(due) })
	j.Location = time.UTC
	return j
}

func TestJobsAreDoneWhenTheyAreDue(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		c := start(t, node, tell("often", "*/20 * * * * *", p), tell("hourly", "30 * * * *", p))
		// The clock of the bubble begins at midnight on January 1, a Saturday.
		p.Expect("often 01 00:00:20", "often 01 00:00:40", "often 01 00:01:00")
		if now := time.Now().UTC(); clock(now) != "01 00:01:00" {
			t.Errorf("it is %s", now)
		}
		if err := c.Disable(t.Context(), "often"); err != nil {
			t.Fatal(err)
		}
		p.Expect("hourly 01 00:30:00", "hourly 01 01:30:00")
		if err := errors.Join(
			c.Remove(t.Context(), "hourly"),
			c.Add(t.Context(), tell("monday", "0 8 * * MON", p)),
			c.Add(t.Context(), tell("every", "@every 36h", p)),
		); err != nil {
			t.Fatal(err)
		}
		p.Expect("every 02 13:30:00", "monday 03 08:00:00", "every 04 01:30:00")
		if err := errors.Join(c.Remove(t.Context(), "every"), c.Enable(t.Context(), "often"), c.Enable(t.Context(), "often")); err != nil {
			t.Fatal(err)
		}
		p.Expect("often 04 01:30:20")
		jobs, err := c.Jobs(t.Context())
		if err != nil || len(jobs) != 2 || jobs[0].Name != "monday" || jobs[1].Runs != 4 || clock(jobs[1].Next) != "04 01:30:40" || clock(jobs[1].Last) != "04 01:30:20" {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		c.Ref().Stop()
		actortest.ExpectEnd(t, c.Ref(), actor.Shutdown)
		p.ExpectNone(30 * 24 * time.Hour)
	})
}

// A call that was given up shares no variable with the cron's actor, which still makes it later: the
// race detector would say so.
func TestJobsThatIsGivenUp(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		c := start(t, node, cron.Job{Name: "slow", Spec: "@every 1m", Do: func(*actor.Context[cron.Command], time.Time) error {
			<-time.After(time.Hour)
			return nil
		}})
		actortest.Advance(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if jobs, err := c.Jobs(ctx); jobs != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Jobs: %v, %v, want a deadline", jobs, err)
		}
		actortest.Advance(2 * time.Hour) // the cron's actor makes the call now
	})
}

func TestJobThatCannotBeEnabledStaysDisabled(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		never := tell("never", "0 0 30 2 *", p)
		never.Disabled = true
		c := start(t, node, never)
		for range 2 {
			if err := c.Enable(t.Context(), "never"); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("Enable: %v, want Invalid", err)
			}
		}
		if jobs, err := c.Jobs(t.Context()); err != nil || len(jobs) != 1 || !jobs[0].Disabled {
			t.Errorf("jobs %+v, %v, want one that is disabled", jobs, err)
		}
	})
}

func TestJobThatFailsStays(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		runs := 0
		boom := errors.New("boom")
		c := start(t, node, cron.Job{Name: "bad", Spec: "@every 1m", Do: func(*actor.Context[cron.Command], time.Time) error {
			if runs++; runs%2 == 0 {
				panic("even")
			}
			return boom
		}})
		actortest.Advance(5*time.Minute + time.Second)
		jobs, err := c.Jobs(t.Context())
		if err != nil || runs != 5 || !errors.Is(jobs[0].Err, boom) {
			t.Errorf("%d runs, jobs %+v, %v: want 5 and boom", runs, jobs, err)
		}
		var panicked *actor.PanicError
		if err := c.Run(t.Context(), "bad"); !errors.As(err, &panicked) || runs != 6 {
			t.Errorf("Run: %v after %d runs, want the panic of the sixth", err, runs)
		}
	})
}

// Jobs that come due several times while another job blocks run once after it.
func TestWhatWasMissedIsDoneOnce(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		slow := cron.Job{Name: "slow", Spec: "0 1 * * *", Location: time.UTC, Do: func(*actor.Context[cron.Command], time.Time) error {
			<-time.After(3*time.Hour + 30*time.Minute)
			return nil
		}}
		start(t, node, slow, tell("hourly", "5 * * * *", p))
		p.Expect("hourly 01 00:05:00", "hourly 01 01:05:00", "hourly 01 05:05:00")
	})
}

func TestChildOfASupervisorStartsAgain(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		sup, err := actor.Supervise(node, nil, cron.NewChild("cron", nil, tell("hourly", "0 * * * *", p)))
		if err != nil {
			t.Fatal(err)
		}
		ref, err := actor.ChildRef[cron.Command](t.Context(), sup, "cron")
		if err != nil {
			t.Fatal(err)
		}
		if err := cron.Of(ref).Disable(t.Context(), "hourly"); err != nil {
			t.Fatal(err)
		}
		ref.Kill()
		p.Expect("hourly 01 01:00:00")
	})
}

func TestBadJobs(t *testing.T) {
	node := actortest.Node(t)
	nothing := func(*actor.Context[cron.Command], time.Time) error { return nil }
	c := start(t, node, cron.Job{Name: "good", Spec: "@daily", Do: nothing})
	for _, j := range []cron.Job{
		{Name: "", Spec: "@daily", Do: nothing},
		{Name: "a", Spec: "@daily"},
		{Name: "a", Spec: "", Do: nothing},
		{Name: "a", Spec: "61 * * * *", Do: nothing},
		{Name: "a", Spec: "* * * *", Do: nothing},
		{Name: "a", Spec: "CRON_TZ=UTC", Do: nothing},
		{Name: "a", Spec: "CRON_TZ=Nowhere/At-All * * * * *", Do: nothing},
		{Name: "a", Spec: "0 0 30 2 *", Do: nothing},
		{Name: "a", Spec: "0 0 1 1 *" + string(make([]byte, cron.MaxSpec)), Do: nothing},
	} {
		if err := c.Add(t.Context(), j); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("Add %q %.40q: %v, want Invalid", j.Name, j.Spec, err)
		}
		if _, err := cron.Start(node, nil, j); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("Start with %q %.40q: %v, want Invalid", j.Name, j.Spec, err)
		}
	}
	if err := c.Add(t.Context(), cron.Job{Name: "good", Spec: "@daily", Do: nothing}); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("Add twice: %v, want Exists", err)
	}
	for name, err := range map[string]error{
		"remove": c.Remove(t.Context(), "none"), "disable": c.Disable(t.Context(), "none"),
		"enable": c.Enable(t.Context(), "none"), "run": c.Run(t.Context(), "none"),
	} {
		if !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%s: %v, want NotFound", name, err)
		}
	}
}

func TestTimesOfAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	// On 29 March 2026 the clocks of Berlin went from two to three.
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, berlin)
	for spec, want := range map[string][]string{
		"30 2 * * *":                      {"28 02:30", "30 02:30", "31 02:30"},
		"30 3 * * *":                      {"28 03:30", "29 03:30", "30 03:30"},
		"CRON_TZ=Asia/Tokyo 0 12 * * SUN": {"29 05:00", "05 05:00", "12 05:00"},
	} {
		times, err := cron.Times(spec, berlin, from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for at := range times {
			if got = append(got, at.In(berlin).Format("02 15:04")); len(got) == 3 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

func FuzzTimes(f *testing.F) {
	for _, spec := range []string{"* * * * *", "*/5 1-3,7 L * ?", "TZ=UTC", "CRON_TZ= ", "@every -1h", "@every 290000h", "0 0 29 2 1", "@reboot", "59 23 31 12 0-6/2 *"} {
		f.Add(spec)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, spec string) {
		times, err := cron.Times(spec, time.UTC, now)
		if err != nil {
			if !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%q: %v, want Invalid", spec, err)
			}
			return
		}
		last := now
		n := 0
		for at := range times {
			if !at.After(last) {
				t.Fatalf("%q: due at %s after %s", spec, at, last)
			}
			last = at
			if n++; n == 3 {
				break
			}
		}
	})
}

func ExampleTimes() {
	times, err := cron.Times("30 8 * * MON-FRI", time.UTC, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	for at := range times {
		fmt.Println(at.Format("Mon 2 January 15:04"))
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// Fri 2 January 08:30
	// Mon 5 January 08:30
	// Tue 6 January 08:30
}

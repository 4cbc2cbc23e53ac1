package group

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
)

func (w *world) configure(group string, cfg Config) error {
	return w.Configure(ctx, group, false, func(Config) (Config, error) { return cfg, nil })
}

// Members get the interval and timeout of the configuration of their group, also after a restart,
// and those of the coordinator when the configuration is removed.
func TestConfiguredGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Session: 45 * time.Second, Heartbeat: 5 * time.Second})
		w.topics.create("t", 2)
		if err := w.configure("g", Config{Session: 60 * time.Second, Heartbeat: 15 * time.Second}); err != nil {
			t.Fatal(err)
		}
		interval := func(r *reporter, want int32) {
			t.Helper()
			converge(t, r)
			if got := r.beat().HeartbeatIntervalMillis; got != want {
				t.Errorf("members of %s are told to report every %d ms, want %d", r.group, got, want)
			}
		}
		gone := func(r *reporter, after time.Duration) {
			t.Helper()
			time.Sleep(after - time.Millisecond)
			synctest.Wait()
			if w.state(r.group) != "Stable" {
				t.Errorf("%s: the member is gone before %v", r.group, after)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if w.state(r.group) != "Empty" {
				t.Errorf("%s: the member is there after %v", r.group, after)
			}
		}
		a, other := w.reporter("g", "a", "t"), w.reporter("other", "b", "t")
		interval(a, 15_000)
		interval(other, 5_000)
		gone(other, 45*time.Second)
		a.fresh()
		w.reopen()
		interval(a, 15_000)
		gone(a, 60*time.Second)

		interval(a.fresh(), 15_000)
		if err := w.configure("g", Config{}); err != nil {
			t.Fatal(err)
		}
		interval(a, 5_000)
		gone(a, 45*time.Second)
		if cfg, err := w.Config(ctx, "g"); err != nil || cfg != (Config{}) {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
}

func TestConfigureChecks(t *testing.T) {
	w := newWorld(t, Options{Session: 20 * time.Second, Heartbeat: 3 * time.Second})
	for _, c := range []struct {
		group   string
		cfg     Config
		mention string
	}{
		{"g", Config{Session: 20 * time.Second}, ""},
		{"g", Config{Session: 60 * time.Second, Heartbeat: 15 * time.Second}, ""},
		{"g", Config{Heartbeat: 3 * time.Second}, ""},
		{"g", Config{Session: 19 * time.Second}, "consumer.session.timeout.ms is 19000: want 20000 to 60000"},
		{"g", Config{Session: 61 * time.Second}, "consumer.session.timeout.ms is 61000"},
		{"g", Config{Heartbeat: 2 * time.Second}, "consumer.heartbeat.interval.ms is 2000: want 3000 to 15000"},
		{"g", Config{Heartbeat: time.Hour}, "consumer.heartbeat.interval.ms is 3600000"},
		{"", Config{Session: 50 * time.Second}, "group"},
	} {
		err := w.configure(c.group, c.cfg)
		if c.mention == "" && err != nil || c.mention != "" && (!errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), c.mention)) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.mention)
		}
	}
	if cfg, err := w.Config(ctx, "g"); err != nil || cfg != (Config{Heartbeat: 3 * time.Second}) {
		t.Errorf("%+v, %v", cfg, err)
	}
	narrow := newWorld(t, Options{Session: 14 * time.Second})
	if err := narrow.configure("g", Config{Heartbeat: 15 * time.Second}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "less than consumer.session.timeout.ms") {
		t.Errorf("an interval longer than the session: %v", err)
	}
}

func TestConfiguredNames(t *testing.T) {
	w := newWorld(t, Options{})
	names := func(want ...string) {
		t.Helper()
		if got, err := w.Configured(ctx); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	names()
	for _, name := range []string{"b", "aa", "c"} {
		if err := w.configure(name, Config{Session: 50 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Configure(ctx, "d", true, func(Config) (Config, error) { return Config{Session: 50 * time.Second}, nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.configure("c", Config{}); err != nil {
		t.Fatal(err)
	}
	names("aa", "b")
	if infos, err := w.Groups(ctx); err != nil || len(infos) != 0 {
		t.Errorf("groups that are only configured are listed: %+v, %v", infos, err)
	}
}

// A configuration whose commit failed is not used.
func TestConfigureFails(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	a := w.reporter("g", "a", "t").mustBeat(t)
	w.log.set(&mainstem.Error{Kind: mainstem.KindUnavailable, Op: "test"}, false)
	if err := w.configure("g", Config{Heartbeat: 15 * time.Second}); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
	w.log.set(nil, false)
	if resp := a.beat(); resp.ErrorCode != 0 || resp.HeartbeatIntervalMillis != 5000 {
		t.Errorf("%v, %+v", kerr.ErrorForCode(resp.ErrorCode), resp)
	}
}

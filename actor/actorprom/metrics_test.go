package actorprom_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actorprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sleeper struct{}

func (*sleeper) Receive(_ *actor.Context[time.Duration], d time.Duration) error {
	if d < 0 {
		return errors.New("asked for the impossible")
	}
	<-time.After(d)
	return nil
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := actorprom.New(&actorprom.Options{Buckets: []float64{0.5, 5}})
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(m)
		node, err := actor.Open("test", &actor.NodeOptions{Observer: m})
		if err != nil {
			t.Fatal(err)
		}
		m.Watch(node)
		m.Watch(node)
		var last actor.Ref[time.Duration]
		for range 3 { // one series, however many actors
			last, err = actor.Spawn(node, &sleeper{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := last.Send(t.Context(), time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		check(t, reg, `
mainstem_actor_mailbox_messages{node=test,type=*actorprom_test.sleeper} 3
`, "mainstem_actor_mailbox")
		check(t, reg, `
mainstem_actor_actors{node=test,state=running,type=*actorprom_test.sleeper} 3
`, "mainstem_actor_actors")
		_ = last.Send(t.Context(), -1)
		if _, err := actor.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		_ = last.Send(t.Context(), 0)
		if err := node.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		m.Unwatch(node)
		check(t, reg, `
mainstem_actor_dead_letters_total{message=time.Duration,reason=stopped} 1
mainstem_actor_ended_total{reason=error,type=*actorprom_test.sleeper} 1
mainstem_actor_ended_total{reason=shutdown,type=*actorprom_test.sleeper} 2
mainstem_actor_handled_seconds{type=*actorprom_test.sleeper} 7 messages, 6 s, 1 to 0.5, 7 to 5
mainstem_actor_started_total{type=*actorprom_test.sleeper} 3
mainstem_actor_waited_seconds{type=*actorprom_test.sleeper} 7 messages, 5 s, 3 to 0.5, 7 to 5
`, "")
	})
}

// check compares what the registry gathers with lines of the form "name{labels} value".
func check(t *testing.T, reg prometheus.Gatherer, want string, prefix string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprint(h.GetSampleCount(), " messages, ", h.GetSampleSum(), " s")
				for _, b := range h.GetBucket() {
					value += fmt.Sprint(", ", b.GetCumulativeCount(), " to ", b.GetUpperBound())
				}
			}
			if strings.HasPrefix(f.GetName(), prefix) {
				got = append(got, fmt.Sprintf("%s{%s} %s", f.GetName(), strings.Join(labels, ","), value))
			}
		}
	}
	if text := strings.Join(got, "\n"); text != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

package coordinator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// load asks all the time, with ten clients, until it is stopped. Clients of it only
// read, so that no request may fail.
type load struct {
	stop     chan struct{}
	wg       sync.WaitGroup
	asked    atomic.Int64
	failures atomic.Int64
	last     sync.Map // by cluster: the server that answered last
}

func startLoad(f *front, sql string, fine func(map[string]answered) error) *load {
	l := &load{stop: make(chan struct{})}
	for range 10 {
		l.wg.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				answers := f.sql(sql)
				if err := fine(answers); err != nil {
					if l.failures.Add(1) < 5 {
						f.t.Error(err)
					}
				}
				for name, a := range answers {
					l.last.Store(name, a.from())
				}
				l.asked.Add(1)
			}
		})
	}
	return l
}

// more waits until n more requests were answered.
func (l *load) more(t testing.TB, n int64) {
	t.Helper()
	from := l.asked.Load()
	testkit.Eventually(t, "requests are answered", func() bool { return l.asked.Load() >= from+n })
}

func (l *load) from(cluster string) string {
	v, _ := l.last.Load(cluster)
	s, ok := v.(string)
	if !ok {
		return ""
	}
	return s
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

const who = "select getservername() as Server from catalog.databases where DatabaseName = 'alerts'"

// TestKillOneOfTwoUnderLoad: no SELECT fails when a server is killed, all go to the
// other one, and back to the first after the delay, when it is there again.
func TestKillOneOfTwoUnderLoad(t *testing.T) {
	a, b := newSite(t, table(t, "ONE")), newSite(t, table(t, "TWO"))
	config := quick(map[string][]string{"AGG": {a.addr, b.addr}})
	config.OMNIbus.FailBackDelay = 100 * time.Millisecond
	f := newFront(t, config, nil)
	l := startLoad(f, who, func(answers map[string]answered) error {
		if a := answers["AGG"]; a.from() != "ONE" && a.from() != "TWO" {
			return fmt.Errorf("a request failed: %+v", a.Error)
		}
		return nil
	})
	defer l.end()
	for range 2 {
		l.more(t, 50)
		if l.from("AGG") != "ONE" {
			t.Error("the first server is not asked at first")
		}
		a.kill()
		testkit.Eventually(t, "the second server answers", func() bool { return l.from("AGG") == "TWO" })
		l.more(t, 50)
		if l.from("AGG") != "TWO" {
			t.Error("the cluster did not stay on the second server")
		}
		a.start()
		testkit.Eventually(t, "the first server answers again", func() bool { return l.from("AGG") == "ONE" })
		testkit.Eventually(t, "no connection to the second server is left", func() bool {
			p := f.c.clusters[0].pool
			p.mu.Lock()
			defer p.mu.Unlock()
			for c := range p.mu.busy {
				if c.server != 0 {
					return false
				}
			}
			for _, c := range p.mu.idle {
				if c.server != 0 {
					return false
				}
			}
			return true
		})
	}
}

// TestInsertsWhileAServerIsKilled: an INSERT that fails says that its outcome is
// unknown, or was not carried out; all others are there, once.
func TestInsertsWhileAServerIsKilled(t *testing.T) {
	shared := table(t, "ONE") // both sites serve one table, so that all rows can be counted
	a, b := newSite(t, shared), newSite(t, shared)
	f := newFront(t, quick(map[string][]string{"AGG": {a.addr, b.addr}}), nil)
	var wg sync.WaitGroup
	var unknown sync.Map
	kill := make(chan struct{})
	for g := range 10 {
		wg.Go(func() {
			for i := range 30 {
				if g == 0 && i == 10 {
					close(kill)
				}
				id := fmt.Sprintf("id-%d-%d", g, i)
				if a := f.sql("insert into alerts.status (Identifier) values ('" + id + "')")["AGG"]; a.Error != nil {
					unknown.Store(id, a.Error.Reason)
				}
			}
		})
	}
	<-kill
	a.kill()
	wg.Wait()
	for g := range 10 {
		for i := range 30 {
			id := fmt.Sprintf("id-%d-%d", g, i)
			a := f.sql("select Tally from alerts.status where Identifier = '" + id + "'")["AGG"]
			_, lost := unknown.Load(id)
			if len(a.Rows) != 1 && !lost || len(a.Rows) == 1 && a.Rows[0]["Tally"] != 1.0 {
				t.Errorf("%s: %+v", id, a)
			}
		}
	}
}

// TestKillAllOfACluster: its entry says what is wrong, the other cluster's rows come.
func TestKillAllOfACluster(t *testing.T) {
	a, b, c := newSite(t, table(t, "ONE")), newSite(t, table(t, "TWO")), newSite(t, table(t, "THREE"))
	f := newFront(t, quick(map[string][]string{"AGG": {a.addr, b.addr}, "OTHER": {c.addr}}), nil)
	l := startLoad(f, who, func(answers map[string]answered) error {
		if len(answers) != 2 {
			return fmt.Errorf("%d entries", len(answers))
		}
		if o := answers["OTHER"]; o.from() != "THREE" {
			return fmt.Errorf("the other cluster: %+v", o)
		}
		a := answers["AGG"]
		if a.Error != nil && (a.code() != "ERR_UNAVAILABLE" || len(a.Rows) != 0 || a.Rows == nil || a.AffectedRows != 0 || a.Error.Reason == "") {
			return fmt.Errorf("the killed cluster: %+v", a)
		}
		return nil
	})
	defer l.end()
	l.more(t, 30)
	a.kill()
	b.kill()
	testkit.Eventually(t, "the cluster says that it is not there", func() bool { return l.from("AGG") == "ERR_UNAVAILABLE" })
	l.more(t, 30)
	b.start()
	testkit.Eventually(t, "the second server answers", func() bool { return l.from("AGG") == "TWO" })
}

// TestHangingServerIsLeft: a server that takes connections and answers nothing is left
// when its checks fail, and SELECTs that wait for it go on elsewhere.
func TestHangingServerIsLeft(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.HealthInterval = 5 * time.Millisecond })
	closed := make(chan struct{})
	first.set(func() {
		first.query = func(_ context.Context, conn *fakeConn, _ string, _ func([]byte) error) (int64, error) {
			first.set(func() { first.down = refusing })
			testkit.Eventually(t, "the connection is closed by the check", func() bool { return !conn.Alive() })
			close(closed)
			return 0, cut
		}
	})
	if a := f.sql("select 1")["AGG"]; a.from() != "second" {
		t.Errorf("%+v", a)
	}
	<-closed
}

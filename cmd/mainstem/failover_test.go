package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/internal/testport"
)

// objectServer is a process that serves alert tables, and can be killed and started again.
type objectServer struct {
	t       *testing.T
	name    string
	dir     string
	address string
	*process
}

func newObjectServer(t *testing.T, name, dir string) *objectServer {
	t.Helper()
	s := &objectServer{t: t, name: name, dir: dir, address: testport.Address(t)}
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *objectServer) start() {
	s.t.Helper()
	var err error
	s.process, err = startServer(s.dir, os.Environ(), "--log", s.name, "--omnibus", s.address, "--alert-server-name", s.name, "--omnibus-users", "users")
	if err != nil {
		s.t.Fatal(err)
	}
}

// identifiers returns the alerts that a server holds, and how often each came.
func (s *objectServer) identifiers() map[string]int64 {
	s.t.Helper()
	c, err := omnirest.New("http://"+s.address, &omnirest.Options{User: "root", Password: "secret"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	r, err := c.SQL(s.t.Context(), "select Identifier, Tally from alerts.status")
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]int64{}
	for _, row := range r.Rows {
		all[row.Text("Identifier")] = row.Int("Tally")
	}
	return all
}

// TestKilledObjectServer kills the process of the first of two object servers, twice,
// while clients of a coordinator select and insert. No select fails; they are answered by
// the second server, and by the first one when it is there again. Every insert that was
// acknowledged is on one of the two, once, also when its server was killed afterwards.
func TestKilledObjectServer(t *testing.T) {
	dir := t.TempDir()
	if err := alertserver.NewUserFile(filepath.Join(dir, "users")).Set(alertserver.User{Name: "root", Role: "admin"}, "secret"); err != nil {
		t.Fatal(err)
	}
	one, two := newObjectServer(t, "ONE", dir), newObjectServer(t, "TWO", dir)
	config := new(coordinator.Config)
	o := &config.OMNIbus
	o.Clusters = map[string][]string{"AGG": {one.address, two.address}}
	o.HealthInterval, o.FailBackDelay, o.BreakerDelay = 20*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	o.DialTimeout, o.HealthTimeout, o.QueryTimeout, o.WaitTimeout = 10*time.Second, 10*time.Second, time.Minute, time.Minute
	c, err := coordinator.Open(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	web := httptest.NewServer(c.Handler())
	defer web.Close()
	cl, err := client.New(web.URL, &client.Options{User: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()

	stop := make(chan struct{})
	var clients sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); clients.Wait() })
	defer end()
	again := func(do func(i int)) {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	var asked atomic.Int64
	var from atomic.Value // the server that answered last
	from.Store("")
	for range 4 {
		again(func(int) {
			r, err := cl.RawSQL(t.Context(), "select getservername() as Server from catalog.databases where DatabaseName = 'alerts'")
			if err != nil || len(r) != 1 || r[0].Err != nil || len(r[0].Rows) != 1 {
				t.Errorf("a select failed: %v %+v", err, r)
				return
			}
			from.Store(r[0].Rows[0].Text("Server"))
			asked.Add(1)
		})
	}
	var mu sync.Mutex
	var taken atomic.Int64 // inserts that were acknowledged
	written := map[string]bool{}
	for g := range 2 {
		again(func(i int) {
			id := fmt.Sprintf("%d-%d", g, i)
			r, err := cl.RawSQL(t.Context(), "insert into alerts.status (Identifier, Severity) values ('"+id+"', 3)")
			mu.Lock()
			defer mu.Unlock()
			if written[id] = err == nil && len(r) == 1 && r[0].Err == nil; written[id] {
				taken.Add(1)
			}
		})
	}
	answers := func(who *objectServer) {
		t.Helper()
		n := asked.Load() + 50
		if !eventually(func() bool { return asked.Load() > n && from.Load() == who.name }) {
			t.Fatalf("%s does not answer, but %q", who.name, from.Load())
		}
		n = taken.Load() + 2 // of two clients: the third was given to who answers now
		if !eventually(func() bool { return taken.Load() > n }) {
			t.Fatalf("%s takes no inserts", who.name)
		}
	}
	for range 2 {
		answers(one)
		one.kill()
		answers(two)
		one.start()
		answers(one)
	}
	end()
	checkWritten(t, written, one.identifiers(), two.identifiers())
}

// checkWritten checks that everything acknowledged is somewhere, once, and nothing
// else anywhere.
func checkWritten(t *testing.T, written map[string]bool, servers ...map[string]int64) {
	t.Helper()
	lost := 0
	for id, acknowledged := range written {
		tally := int64(0)
		for _, s := range servers {
			tally += s[id]
		}
		if tally > 1 || acknowledged && tally == 0 {
			t.Errorf("the alert %s came %d times; acknowledged: %v", id, tally, acknowledged)
		}
		if !acknowledged {
			lost++
		}
	}
	for _, s := range servers {
		for id := range s {
			if _, ok := written[id]; !ok {
				t.Errorf("nobody has inserted %s", id)
			}
		}
		if len(s) == 0 {
			t.Error("a server was given nothing: the test proves nothing")
		}
	}
	if lost == len(written) {
		t.Error("no insert was acknowledged")
	}
	t.Logf("%d inserts, the outcome of %d is not known", len(written), lost)
}

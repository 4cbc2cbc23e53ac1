package alertserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	coordinators "github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
	"github.com/mainstemdev/mainstem/server"
)

func coordinatorConfig(listen string, servers ...string) *coordinator.Config {
	c := &coordinator.Config{}
	c.HTTP.Listen = listen
	c.OMNIbus.Clusters = map[string][]string{"AGG1": servers}
	c.OMNIbus.DialTimeout, c.OMNIbus.WaitTimeout, c.OMNIbus.QueryTimeout, c.OMNIbus.HealthTimeout = testkit.Patience, testkit.Patience, testkit.Patience, testkit.Patience
	return c
}

func startCoordinator(t *testing.T, c *coordinator.Config, o *alertserver.CoordinatorOptions) *alertserver.Coordinator {
	t.Helper()
	p, err := alertserver.OpenCoordinator(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestCoordinator(t *testing.T) {
	n := start(t, func(c *server.Config, a *alertserver.Config) { a.Omnibus, a.ServerName = "127.0.0.1:0", "AGG1" })
	sql(t, n, "insert into alerts.status (Identifier, Node) values ('a', 'web1')")
	p := startCoordinator(t, coordinatorConfig(testport.Address(t), n.alerts.OmnibusAddr().String()), nil)
	cl, err := coordinators.New(p.URL(), &coordinators.Options{User: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	results, err := cl.RawSQL(t.Context(), "select Node from alerts.status")
	if err != nil || len(results) != 1 || results[0].Err != nil || len(results[0].Rows) != 1 || results[0].Rows[0].Text("Node") != "web1" {
		t.Errorf("%+v, %v", results, err)
	}
	if code, text := servertest.Get(t, http.Header{}, p.URL()+"/metrics"); code != http.StatusOK || !strings.Contains(text, `mainstem_alert_coordinator_rows_total{cluster="AGG1"} 1`) {
		t.Errorf("metrics: %d %s", code, text)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := cl.RawSQL(t.Context(), "select Node from alerts.status"); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a coordinator that was stopped: %v", err)
	}
}

func TestCoordinatorAnswersToNamesOfThisMachineOnly(t *testing.T) {
	web := http.Header{"Host": {"evil.example.org"}}
	p := startCoordinator(t, coordinatorConfig("127.0.0.1:0", "127.0.0.1:1"), nil)
	if code, body := servertest.Get(t, web, p.URL()+"/healthz"); code != http.StatusForbidden {
		t.Errorf("a name that a web page chose: %d: %s", code, body)
	}
	if code, body := servertest.Get(t, http.Header{}, p.URL()+"/healthz"); code != http.StatusOK {
		t.Errorf("an address: %d: %s", code, body)
	}
	insecure := startCoordinator(t, coordinatorConfig("127.0.0.1:0", "127.0.0.1:1"), &alertserver.CoordinatorOptions{Insecure: true})
	if code, body := servertest.Get(t, web, insecure.URL()+"/healthz"); code != http.StatusOK {
		t.Errorf("any name, insecure: %d: %s", code, body)
	}
}

func TestCoordinatorBeyondLoopbackNeedsTLS(t *testing.T) {
	c := coordinatorConfig("0.0.0.0:0", "127.0.0.1:1")
	if err := alertserver.CheckCoordinator(c, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("checked: %v", err)
	}
	if _, err := alertserver.OpenCoordinator(t.Context(), c, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("opened: %v", err)
	}
	if err := alertserver.CheckCoordinator(c, &alertserver.CoordinatorOptions{Insecure: true}); err != nil {
		t.Errorf("insecure: %v", err)
	}
}

// TestCoordinatorStopsWhenItsRequestsHaveEnded: what runs is answered, what comes is not
// begun, and what takes too long is ended.
func TestCoordinatorStopsWhenItsRequestsHaveEnded(t *testing.T) {
	for name, patience := range map[string]time.Duration{"in time": time.Minute, "too late": 20 * time.Millisecond} {
		asked, answer := make(chan struct{}, 1), make(chan struct{})
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodPost {
				asked <- struct{}{}
				select {
				case <-answer:
				case <-r.Context().Done():
				}
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"rowset":{"rows":[{"n":1}],"affectedRows":1}}`)
		}))
		c := coordinatorConfig("127.0.0.1:0", slow.Listener.Addr().String())
		c.HTTP.ShutdownTimeout = patience
		p := startCoordinator(t, c, nil)
		cl, err := coordinators.New(p.URL(), &coordinators.Options{User: "root", Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			results []coordinators.Result
			err     error
		}
		running, stopped := make(chan outcome, 1), make(chan error, 1)
		go func() {
			results, err := cl.RawSQL(t.Context(), "select 1 as n from alerts.status")
			running <- outcome{results, err}
		}()
		select {
		case <-asked:
		case got := <-running:
			t.Fatalf("answered without a question: %+v", got)
		}
		go func() { stopped <- p.Stop(context.Background()) }()
		if name == "in time" {
			for begin := time.Now(); ; {
				if code, _ := servertest.Get(t, http.Header{}, p.URL()+"/readyz"); code == http.StatusServiceUnavailable {
					break
				} else if time.Since(begin) > 30*time.Second {
					t.Fatal("a coordinator that is stopping says that it is ready")
				}
			}
			if _, err := cl.RawSQL(t.Context(), "select 2 as n from alerts.status"); !errors.Is(err, mainstem.ErrUnavailable) {
				t.Errorf("a request to a coordinator that is stopping: %v", err)
			}
			close(answer)
		}
		got := <-running
		if err := <-stopped; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		well := got.err == nil && len(got.results) == 1 && got.results[0].Err == nil && len(got.results[0].Rows) == 1
		if well != (name == "in time") {
			t.Errorf("%s: the request that was running: %+v", name, got)
		}
		_ = cl.Close()
		slow.Close()
	}
}

package netio_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/netio"
)

func TestRequestsAreMessages(t *testing.T) {
	node := actortest.Node(t)
	upper := actor.Func[netio.Request](func(c *actor.Context[netio.Request], m netio.Request) error {
		switch m.HTTP.URL.Path {
		case "/crash":
			return errors.New("crash")
		case "/silent":
			return nil
		case "/fail":
			return m.Reply.Fail(errors.New("secret"))
		case "/odd":
			return m.Reply.Send(netio.Response{Status: 42})
		}
		return m.Reply.Send(netio.Response{
			Status: http.StatusCreated, Header: http.Header{"X-By": {c.Self().Address().Name}},
			Body: []byte(strings.ToUpper(string(m.Body))),
		})
	})
	sup, err := actor.Supervise(node, nil, actor.NewChild("upper", func() actor.Func[netio.Request] { return upper },
		&actor.ChildOptions{Options: actor.Options{Name: "upper"}}))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := actor.ChildRef[netio.Request](t.Context(), sup, "upper")
	if err != nil {
		t.Fatal(err)
	}
	h := netio.Handler(ref, &netio.HandlerOptions{MaxBody: 10, Timeout: time.Minute})
	hasty := netio.Handler(ref, &netio.HandlerOptions{MaxBody: 10, Timeout: 50 * time.Millisecond}) // for what must time out
	for path, want := range map[string]int{
		"/": 201, "/crash": 500, "/silent": 504, "/fail": 500, "/odd": 500, "/long": 413,
	} {
		body := "hello"
		if path == "/long" {
			body = "hello again"
		}
		w, h := httptest.NewRecorder(), h
		if path == "/silent" {
			h = hasty
		}
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
		if w.Code != want || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %q, want %d", path, w.Code, w.Body, want)
		}
		if path == "/" && (w.Body.String() != "HELLO" || w.Header().Get("X-By") != "upper") {
			t.Errorf("%s: %q %v", path, w.Body, w.Header())
		}
	}
	sup.Ref().Stop()
	actortest.ExpectEnd(t, sup.Ref(), actor.Shutdown)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("stopped: %d, want 503", w.Code)
	}
}

func TestServerWaitsForRequestsUnderWay(t *testing.T) {
	node := actortest.Node(t)
	begun, release := make(chan struct{}), make(chan struct{})
	s := actortest.Spawn(t, node, &netio.Server{Address: "127.0.0.1:0", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		_, _ = io.WriteString(w, "done")
	})}, nil)
	url := "http://" + where(t, s)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got := make(chan string, 1)
	go func() {
		resp, err := client.Get(url)
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		got <- string(body) + errorText(err)
	}()
	<-begun
	down := actortest.Watch(t, node, s)
	s.Stop()
	down.ExpectNone(20 * time.Millisecond)
	close(release)
	if body := <-got; body != "done" {
		t.Errorf("got %q, want done", body)
	}
	if d := down.Next(); d.Reason != actor.Shutdown {
		t.Errorf("ended for %v", d.Reason)
	}
	if _, err := client.Get(url); err == nil {
		t.Error("the server still serves")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestServerThatIsKilledIsClosed(t *testing.T) {
	node := actortest.Node(t)
	s := actortest.Spawn(t, node, &netio.Server{Address: "127.0.0.1:0", Handler: http.NotFoundHandler()}, nil)
	address := where(t, s)
	s.Kill()
	actortest.ExpectEnd(t, s, actor.Killed)
	// The port can be taken again as soon as the server has gone.
	var err error
	for deadline := time.Now().Add(actortest.Patience); time.Now().Before(deadline); {
		if _, err = actor.Spawn(node, &netio.Server{Address: address, Handler: http.NotFoundHandler()}, nil); err == nil {
			return
		}
	}
	t.Error(err)
}

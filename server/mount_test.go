package server_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
)

// TestMountedPathsComeAsTheyWereSent: nothing is cleaned or redirected below a mount, and Stop
// ends requests that do not end by themselves.
func TestMountedPathsComeAsTheyWereSent(t *testing.T) {
	var notes []string
	ended := make(chan struct{})
	component := &planned{name: "mount", notes: &notes, start: func(h *server.Host) error {
		h.Mount("/v9/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v9/follow" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-ended
			}
			_, _ = io.WriteString(w, r.URL.EscapedPath())
		}), func() error { close(ended); return nil })
		return nil
	}}
	n := servertest.Start(t, servertest.Config(component))
	for _, path := range []string{"/v9/a//b", "/v9/a/../b", "/v9/a%2Fb", "/v9/./", "/v9/%2E%2E/c"} {
		if code, text := servertest.Get(t, nil, n.URL()+path); code != http.StatusOK || text != path {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := servertest.Get(t, nil, n.URL()+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz beside a mount: %d", code)
	}
	if code, _ := servertest.Get(t, nil, n.URL()+"/v9"); code != http.StatusNotFound {
		t.Errorf("above the mount: %d", code)
	}
	resp, err := servertest.Client.Get(n.URL() + "/v9/follow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "/v9/follow" {
		t.Errorf("the request that does not end by itself: %q, %v", text, err)
	}
}

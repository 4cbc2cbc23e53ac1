package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// Clients of a server use sessions, which its metrics show.
func TestServerHasSessions(t *testing.T) {
	n := start(t, nil)
	log := client(t, n, nil)
	put(t, log, "k", "v")
	info, err := log.(*remotelog.Log).Info(t.Context())
	if err != nil || info.Transport != remotelog.Sessions {
		t.Errorf("the transport is %v, %v", info.Transport, err)
	}
	response, err := http.Get(n.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mainstem_sessions 1", "mainstem_sessions_total 1", `mainstem_session_calls_total{procedure="Info"} 1`, `mainstem_session_bytes_total{direction="in"}`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

// A token file that changes ends the sessions of the old token, and requests need the new.
func TestTokenFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	n := start(t, func(c *server.Config) { c.TokenFile = file })
	old := client(t, n, &server.LogOptions{Token: "one"})
	put(t, old, "k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for _, err := range old.Feed(ctx, mainstem.Filter{Follow: true}) {
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	write("") // is no token: nothing changes
	write("two")
	if err := <-ended; !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("the follower with the old token ended with %v", err)
	}
	_, err := old.Head(t.Context())
	if !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("the old token: %v", err)
	}
	put(t, client(t, n, &server.LogOptions{Token: "two"}), "k", "w")
	testkit.Eventually(t, "the metrics need the new token", func() bool {
		return statusWith(t, n, "one") == http.StatusUnauthorized && statusWith(t, n, "two") == http.StatusOK
	})
}

func statusWith(t *testing.T, n *server.Server, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/actor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func call(t testing.TB, method, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body)))
}

// Counts survive the actors that count: these leave the memory all the time.
func TestCountsOutliveTheirActors(t *testing.T) {
	node, err := actor.Open("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCounters(node, t.TempDir(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c)
	const clients, each = 4, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				if got := call(t, http.MethodPost, server.URL+"/tea"); !strings.HasPrefix(got, "200") {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool { return c.byPath.Len() == 0 })
	if got := call(t, http.MethodGet, server.URL+"/tea"); got != "200 200" {
		t.Errorf("tea: %s, want %d of them", got, clients*each)
	}
	if got := call(t, http.MethodGet, server.URL+"/coffee"); got != "200 0" {
		t.Errorf("coffee: %s, want none", got)
	}
	if got := call(t, http.MethodDelete, server.URL+"/tea"); !strings.HasPrefix(got, "405") {
		t.Errorf("delete: %s", got)
	}
	if got := call(t, http.MethodGet, server.URL+"/"+strings.Repeat("x", maxPath)); !strings.HasPrefix(got, "414") {
		t.Errorf("long path: %s", got)
	}
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRunSavesWhenItIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "%2Fmilk.count"), []byte("41\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, restore := captureOutput(t)
	done := make(chan error, 1)
	go func() { done <- run(ctx, "localhost:0", dir, time.Hour) }()
	var addr string
	if _, err := fmt.Fscanf(out, "serving on %s\n", &addr); err != nil {
		t.Fatal(err)
	}
	restore()
	if got := call(t, http.MethodPost, "http://"+addr+"/milk"); got != "200 42" {
		t.Errorf("milk: %s, want 42", got)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(dir, "%2Fmilk.count"))
	if err != nil || string(saved) != "42\n" {
		t.Errorf("saved %q, %v, want 42", saved, err)
	}
}

// captureOutput lets the test read what is printed until restore is called.
func captureOutput(t testing.TB) (out io.Reader, restore func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = w
	t.Cleanup(func() { r.Close() })
	return r, func() { os.Stdout = old; w.Close() }
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come true")
		}
		time.Sleep(time.Millisecond)
	}
}

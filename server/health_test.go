package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// broken is a log that takes no commits.
type broken struct{ mainstem.Log }

func (broken) Commit(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
	return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Hint: "buy a disk"}
}

func ask(t *testing.T, h http.HandlerFunc) (int, Status) {
	t.Helper()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	var s Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return w.Code, s
}

func TestReadySaysWhyNot(t *testing.T) {
	c := DefaultConfig()
	c.Log, c.Listen = filepath.Join(t.TempDir(), "log"), "127.0.0.1:0"
	n, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop(context.Background())
	if code, s := ask(t, n.ready); code != 200 || s.Status != "ok" {
		t.Fatalf("a new node: %d %+v", code, s)
	}

	n.config.MinFree = 1 << 62
	if code, s := ask(t, n.ready); code != 503 || !strings.Contains(s.Error, "min-free") {
		t.Errorf("a full disk: %d %+v", code, s)
	}
	n.config.MinFree = 0

	whole := n.engine
	n.engine = broken{whole}
	if code, s := ask(t, n.ready); code != 503 || s.Status != "unavailable" || !strings.Contains(s.Error, "buy a disk") {
		t.Errorf("a log that takes no commits: %d %+v", code, s)
	}
	if code, s := ask(t, n.alive); code != 200 || s.Status != "ok" {
		t.Errorf("the process lives all the same: %d %+v", code, s)
	}
	n.engine = whole

	n.begin()
	if code, s := ask(t, n.ready); code != 503 || s.Status != "stopping" {
		t.Errorf("while stopping: %d %+v", code, s)
	}
}

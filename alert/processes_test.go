package alert

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// TestWaitForAnotherProcess has two servers on logs of their own on one stream: what one has
// committed reaches the other a moment later.
func TestWaitForAnotherProcess(t *testing.T) {
	url := testnats.NewServer(t, nil).URL()
	var servers []*Server
	for range 2 {
		log, err := natslog.Open(url, &natslog.Options{Memory: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, open(t, log, Options{}))
	}
	for i := range 50 {
		r := exec(t, servers[i%2], "insert into alerts.status (Identifier) values ('a')")
		other := servers[1-i%2]
		if err := other.Wait(t.Context(), r.Position); err != nil {
			t.Fatal(err)
		}
		want(t, other, fmt.Sprintf("[[%d]]", i+1), "select Tally from alerts.status")
	}
	b := mainstem.NewBatch()
	b.Ensure("other", mainstem.Policy{})
	b.Put("other", []byte("k"), []byte("v"))
	r, err := servers[0].Log().Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers { // what is no row is waited for, too
		if err := s.Wait(t.Context(), r.Last); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := servers[0].Wait(ctx, r.Last+1); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("waiting for what nobody has committed, without time: %v", err)
	}
	waited := make(chan error)
	go func() { waited <- servers[0].Wait(t.Context(), r.Last+1) }()
	if err := servers[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-waited; !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("waiting at a server that is closed: %v", err)
	}
}

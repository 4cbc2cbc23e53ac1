package eventcmd

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/server"
)

// TestTwoImportsOfTheSameLines run at the same time and leave every event once.
func TestTwoImportsOfTheSameLines(t *testing.T) {
	log, err := server.OpenLog(t.Context(), server.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	store, err := event.Open(log, "events", nil)
	if err != nil {
		t.Fatal(err)
	}
	var items []eventRow
	for i := range 400 {
		items = append(items, eventRow{fmt.Sprintf("s-%d", i%7), event.Event{ID: eventID(fmt.Sprint(i)), Type: "t"}})
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for w := range 2 {
		wg.Go(func() {
			target, err := (&eventTemplates{stream: "s", typ: "t", id: "i"}).parse()
			if err != nil {
				t.Error(err)
				return
			}
			target.log, target.store = log, store
			for chunk := range slices.Chunk(items, 5+2*w) {
				n, err := target.Commit(t.Context(), fmt.Sprintf("%d/%s", w, chunk[0].event.ID), chunk)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seen := map[event.ID]bool{}
	for e, err := range store.Feed(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.ID] {
			t.Errorf("event %s is there twice", e.ID)
		}
		seen[e.ID] = true
	}
	if len(seen) != len(items) || total != len(items) {
		t.Errorf("%d events, %d counted as written, want %d", len(seen), total, len(items))
	}
}

func TestEventIDOfTextNeverChanges(t *testing.T) {
	for text, want := range map[string]string{
		"8e55cde513cb":                         "b36e90dc-50ad-5e14-a827-915228cae2e6",
		"01890A5D-AC96-774B-BCCE-B302099A8057": "01890a5d-ac96-774b-bcce-b302099a8057",
	} {
		if got := eventID(text).String(); got != want {
			t.Errorf("eventID(%q) = %s, want %s: events that were imported would be imported again", text, got, want)
		}
	}
}

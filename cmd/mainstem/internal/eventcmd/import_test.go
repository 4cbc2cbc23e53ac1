package eventcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
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

// lostAnswers is a log whose next commits end without an answer, whether they are written or not.
type lostAnswers struct {
	mainstem.Log
	writes []bool // by commit: it is written
}

func (l *lostAnswers) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if len(l.writes) == 0 {
		return l.Log.Commit(ctx, b)
	}
	write := l.writes[0]
	l.writes = l.writes[1:]
	if write {
		if _, err := l.Log.Commit(ctx, b); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
}

// TestImportCountsItsOwnLinesAfterALostAnswer: what is there because the attempt before wrote it
// counts as written, what somebody else wrote does not.
func TestImportCountsItsOwnLinesAfterALostAnswer(t *testing.T) {
	items := []eventRow{
		{"s-1", event.Event{ID: eventID("1"), Type: "t"}}, {"s-2", event.Event{ID: eventID("2"), Type: "t"}}, {"s-1", event.Event{ID: eventID("3"), Type: "t"}},
	}
	for name, c := range map[string]struct {
		writes []bool
		other  []eventRow // what another import writes before the last attempt
		want   int
	}{
		"written":                     {writes: []bool{true}, want: 3},
		"not written":                 {writes: []bool{false}, want: 3},
		"written the second time":     {writes: []bool{false, true}, want: 3},
		"somebody else was faster":    {writes: []bool{false}, other: items[:1], want: 2},
		"somebody else, but too late": {writes: []bool{true}, other: items[:1], want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			memory, err := server.OpenLog(t.Context(), server.Memory, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			open := func(log mainstem.Log) *eventRows {
				target, err := (&eventTemplates{stream: "s", typ: "t", id: "i"}).parse()
				if err == nil {
					target.log = log
					target.store, err = event.Open(log, "events", nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				return target
			}
			target := open(&lostAnswers{Log: memory, writes: c.writes})
			for range c.writes {
				if _, err := target.Commit(t.Context(), "batch", items); !errors.Is(err, mainstem.ErrUnknownOutcome) {
					t.Fatal(err)
				}
			}
			if c.other != nil {
				if _, err := open(memory).Commit(t.Context(), "other", c.other); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := target.Commit(t.Context(), "batch", items); err != nil || n != c.want {
				t.Errorf("%d counted as written, %v; want %d", n, err, c.want)
			}
			if n, err := target.Commit(t.Context(), "again", items); err != nil || n != 0 {
				t.Errorf("%d written again, %v", n, err)
			}
			events := 0
			for _, err := range target.store.Feed(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				events++
			}
			if events != len(items) {
				t.Errorf("%d events, want %d", events, len(items))
			}
		})
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

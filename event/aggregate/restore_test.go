package aggregate_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/cbor"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

// Game is an aggregate whose state without events is not zero.
type (
	Game struct {
		aggregate.Root
		table
		*Prize
		Board map[string]string
		Limit int `json:",omitempty" cbor:",omitempty"`
		Best  *Score
		Moves []string
	}
	table struct{ Seats map[int]string }
	Prize struct{ Cents int }
	Score struct {
		Points int `json:",omitempty" cbor:",omitempty"`
		Tags   map[string]bool
	}
	board struct {
		Board map[string]string `json:",omitempty" cbor:",omitempty"`
	}
)

func newGame(string) *Game {
	return &Game{
		table: table{map[int]string{1: "ann"}}, Prize: &Prize{5}, Board: map[string]string{"e2": "pawn"}, Limit: 100,
		Best: &Score{7, map[string]bool{"x": true}}, Moves: []string{"start"},
	}
}

// Apply moves a pawn for Opened, and sets the other fields for Deposited.
func (g *Game) Apply(ev any) error {
	switch ev := ev.(type) {
	case Opened:
		clear(g.Board)
		g.Board[ev.Owner] = "pawn"
	case Deposited:
		delete(g.Seats, 1)
		g.Limit, g.Prize.Cents, g.Best, g.Moves = 0, 0, &Score{Tags: map[string]bool{"y": true}}, nil
	case Closed:
		clear(g.Board)
		g.Best = nil
	}
	return nil
}

// A state that is loaded by a snapshot is that of the events, whatever the state without events was.
func TestSnapshotReplacesTheInitialState(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, cbor.Codec} {
		f := newFixture(t)
		games := func(o *aggregate.Options) *aggregate.Repository[*Game] {
			r, err := aggregate.Open(f.store, f.types, "game", newGame, o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		by, without := games(&aggregate.Options{SnapshotEvery: 1, SnapshotCodec: c}), games(nil)
		for i, ev := range []any{Opened{"e4"}, Deposited{1}, Closed{}, Opened{"d4"}} {
			if _, err := by.UpdateOrNew(t.Context(), "1", func(g *Game) error { return aggregate.Raise(g, ev) }); err != nil {
				t.Fatal(err)
			}
			got, err1 := by.Load(t.Context(), "1")
			want, err2 := without.Load(t.Context(), "1")
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(Game{}, table{}), cmpopts.IgnoreTypes(aggregate.Root{})); d != "" {
				t.Errorf("%s, after %d events:\n%s", c.Name(), i+1, d)
			}
		}
	}
}

// The state of a decider that is restored has the maps of the initial state, without their entries.
func TestSnapshotOfADeciderWithAMap(t *testing.T) {
	f := newFixture(t)
	start := &board{map[string]string{"e2": "pawn"}}
	d, err := aggregate.OpenDecider(f.store, f.types, "board", aggregate.Decider[*board, string, any]{
		Initial: func() *board { return start },
		Decide: func(_ *board, to string) ([]any, error) {
			if to == "" {
				return []any{Closed{}}, nil
			}
			return []any{Opened{to}}, nil
		},
		Evolve: func(b *board, ev any) *board {
			next := &board{make(map[string]string)}
			if opened, ok := ev.(Opened); ok {
				next = b
				next.Board[opened.Owner] = "pawn"
			}
			return next
		},
	}, &aggregate.Options{SnapshotEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"", "e4"} {
		if _, err := d.Handle(t.Context(), "1", to); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := d.Load(t.Context(), "1")
	if diff := cmp.Diff(&board{map[string]string{"e4": "pawn"}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if len(start.Board) != 1 || start.Board["e2"] == "" {
		t.Errorf("the initial state became %v", start.Board)
	}
}

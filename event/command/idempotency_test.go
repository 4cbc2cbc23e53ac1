package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/kv"
)

func TestIdempotency(t *testing.T) {
	onEach(t, testIdempotency, command.Idempotency(command.IdempotencyOptions{Skip: []string{"Named"}}))
}

func testIdempotency(t *testing.T, s *shop) {
	first := s.dispatch(place{ID: "1", Item: "book", Key: "k"})
	again := s.dispatch(place{ID: "1", Item: "book", Key: "k", Base: command.Base{CommandID: "other"}})
	want := first
	want.Duplicate, want.Position = true, again.Position
	if again != want || again.Position < s.events("1")[0].Position || s.sold("book") != 1 {
		t.Errorf("again: %+v, want %+v; sold %d", again, want, s.sold("book"))
	}
	if r := s.dispatch(place{ID: "2", Item: "book", Base: command.Base{CommandID: "k"}}); !r.Duplicate {
		t.Errorf("the command ID is the key of those without: %+v", r)
	}
	s.dispatch(place{ID: "2", Item: "book"})
	s.dispatch(place{ID: "3", Item: "book"})
	if s.sold("book") != 3 {
		t.Errorf("commands without a key: %d sold, want 3", s.sold("book"))
	}
	// Another type of command may have the same key; Data comes back as what it was.
	paid := s.dispatch(&pay{Order: "1", Base: command.Base{CommandID: "k"}})
	again = s.dispatch(&pay{Order: "1", Base: command.Base{CommandID: "k"}})
	for _, r := range []command.Result{paid, again} {
		data, err := command.DataOf[map[string]int](r)
		if err != nil || data["cents"] != 995 || r.Version != 2 {
			t.Errorf("%+v has data %v, %v", r, data, err)
		}
	}
	if _, ok := again.Data.(json.RawMessage); !ok || !again.Duplicate {
		t.Errorf("again: %+v", again)
	}
	if _, err := command.DataOf[int](paid); err == nil {
		t.Error("data of another type")
	}
	handled := 0
	err := command.Handle(s.bus, func(context.Context, named) (command.Result, error) { handled++; return command.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	table, err := kv.Open[any](s.log, "command/shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := table.Get(t.Context(), "Place/k")
	if left := time.Until(e.Expires); err != nil || left < 23*time.Hour || left > 25*time.Hour {
		t.Errorf("the record ends in %v, %v: want 24 h", left, err)
	}
}

// keyed is a command of type Keyed, with a key.
type keyed struct{ key string }

func (keyed) CommandType() string      { return "Keyed" }
func (k keyed) IdempotencyKey() string { return k.key }

type (
	order        struct{ keyed }
	orderCancel  struct{ keyed }
	orderEscaped struct{ keyed }
)

func (order) CommandType() string        { return "order" }
func (orderCancel) CommandType() string  { return "order/cancel" }
func (orderEscaped) CommandType() string { return "order%2Fcancel" }

// Commands of different types have different records, even if their types and keys contain slashes
// or the escaped form of a slash.
func TestTypesWithSlashes(t *testing.T) {
	s := newShop(t, command.Idempotency(command.IdempotencyOptions{}))
	if err := errors.Join(handled[order](s.bus), handled[orderCancel](s.bus), handled[orderEscaped](s.bus)); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		for _, c := range []command.Command{order{keyed{"cancel/1"}}, orderCancel{keyed{"1"}}, orderEscaped{keyed{"1"}}} {
			if r := s.dispatch(c); r.Duplicate != again {
				t.Errorf("%#v: duplicate is %v, want %v", c, r.Duplicate, again)
			}
		}
	}
}

// A command that was refused may be sent again, unless its error is recorded.
func TestKeepErrors(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newShop(t, command.Idempotency(command.IdempotencyOptions{KeepErrors: keep}))
		no := errors.New("not today")
		if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Key: "k", Fail: no}); !errors.Is(err, no) {
			t.Fatal(err)
		}
		r, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Key: "k"})
		var earlier *command.EarlierError
		switch {
		case keep && (!errors.As(err, &earlier) || earlier.Message != "not today" || earlier.Key != "k" || s.sold("book") != 0):
			t.Errorf("kept: %+v, %v", r, err)
		case !keep && (err != nil || r.Duplicate || s.sold("book") != 1):
			t.Errorf("not kept: %+v, %v", r, err)
		}
		// An Unavailable is never recorded.
		s.log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.NotWritten}
		}
		if _, err := s.bus.Dispatch(t.Context(), place{ID: "2", Item: "pen", Key: "k2"}); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Fatal(err)
		}
		s.log.commit = nil
		if r := s.dispatch(place{ID: "2", Item: "pen", Key: "k2"}); r.Duplicate || s.sold("pen") != 1 {
			t.Errorf("after an outage: %+v", r)
		}
	}
}

// With KeepErrors, an error that does not come from the command is not recorded: a lost race, also
// with Retry outside of Idempotency, or the end of a context.
func TestKeepErrorsOfTheCommandOnly(t *testing.T) {
	s := newShop(t, command.Retry(command.RetryOptions{First: time.Millisecond}), command.Idempotency(command.IdempotencyOptions{KeepErrors: true}))
	lost := false
	s.log.commit = func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
		if !lost {
			lost = true
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Outcome: mainstem.NotWritten}
		}
		return s.log.Log.Commit(ctx, b)
	}
	if r := s.dispatch(place{ID: "1", Item: "book", Key: "k"}); r.Duplicate || s.sold("book") != 1 {
		t.Errorf("after a lost race: %+v, sold %d", r, s.sold("book"))
	}
	for i, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		cmd := place{ID: fmt.Sprint("ended", i), Item: "pen", Key: fmt.Sprint("ended", i), Fail: ended}
		if _, err := s.bus.Dispatch(t.Context(), cmd); !errors.Is(err, ended) {
			t.Fatal(err)
		}
		cmd.Fail = nil
		if r := s.dispatch(cmd); r.Duplicate || s.sold("pen") != i+1 {
			t.Errorf("after %v: %+v, sold %d", ended, r, s.sold("pen"))
		}
	}
	if err := s.store.Archive(t.Context(), "order-1"); err != nil {
		t.Fatal(err)
	}
	var sealed *event.SealedError
	if _, err := s.bus.Dispatch(t.Context(), &pay{Order: "1", Base: command.Base{CommandID: "p"}}); !errors.As(err, &sealed) {
		t.Fatal(err)
	}
	var earlier *command.EarlierError
	if _, err := s.bus.Dispatch(t.Context(), &pay{Order: "1", Base: command.Base{CommandID: "p"}}); !errors.As(err, &earlier) {
		t.Errorf("after a conflict with a sealed stream: %v, want an EarlierError", err)
	}
}

// With KeepErrors, a command that had no handler is handled once there is one.
func TestKeepErrorsWithoutHandler(t *testing.T) {
	s := newShop(t, command.Idempotency(command.IdempotencyOptions{KeepErrors: true}))
	var missing *command.HandlerNotFoundError
	if _, err := s.bus.Dispatch(t.Context(), keyed{"k"}); !errors.As(err, &missing) {
		t.Fatal(err)
	}
	if err := handled[keyed](s.bus); err != nil {
		t.Fatal(err)
	}
	if r := s.dispatch(keyed{"k"}); r.Duplicate {
		t.Errorf("%+v, want the first result", r)
	}
}

// A joined command that is carried out elsewhere while its handler runs fails the outer command,
// which then finds the result. What the handler wrote into the batch is not committed.
func TestJoinOfACommandCarriedOutMeanwhile(t *testing.T) {
	once, retry := command.Idempotency(command.IdempotencyOptions{}), command.Retry(command.RetryOptions{First: time.Millisecond})
	for _, middleware := range [][]command.Middleware{{once}, {retry, once}} {
		s := newShop(t, middleware...)
		other := shopOn(t, s.log, once) // that of another process
		tries := 0
		take := func(ctx context.Context) error { return s.take(ctx, command.Batch(ctx), "book") }
		err := errors.Join(
			command.Handle(other.bus, func(ctx context.Context, _ keyed) (command.Result, error) {
				return command.Result{AggregateID: "1"}, take(ctx)
			}),
			command.Handle(s.bus, func(ctx context.Context, cmd keyed) (command.Result, error) {
				tries++
				other.dispatch(cmd)
				return command.Result{}, errors.Join(take(ctx), errors.New("placed already"))
			}),
			command.Handle(s.bus, func(ctx context.Context, _ named) (command.Result, error) {
				s.stock.PutTo(command.Batch(ctx), "outer", 1)
				return s.bus.Dispatch(command.Join(ctx), keyed{"k"})
			}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.bus.Dispatch(t.Context(), named(""))
		if len(middleware) == 1 {
			var e *mainstem.Error
			if !errors.As(err, &e) || e.Kind != mainstem.KindConflict || e.Outcome != mainstem.NotWritten || s.sold("outer") != 0 {
				t.Errorf("the first time: %+v, %v; want a conflict that wrote nothing", r, err)
			}
			r, err = s.bus.Dispatch(t.Context(), named(""))
		}
		if err != nil || r.AggregateID != "1" || s.sold("outer") != 1 || s.sold("book") != 1 || tries != 1 {
			t.Errorf("%+v, %v; outer %d, sold %d, tried %d times", r, err, s.sold("outer"), s.sold("book"), tries)
		}
	}
}

// A commit takes one command of each type and key: a second one fails all of it, and with KeepErrors
// is not recorded.
func TestJoinOfOneKeyTwice(t *testing.T) {
	for _, inItself := range []bool{false, true} {
		s := newShop(t, command.Idempotency(command.IdempotencyOptions{KeepErrors: !inItself}))
		calls := 0
		joined := func(ctx context.Context) error { return second(s.bus.Dispatch(command.Join(ctx), keyed{"k"})) }
		err := errors.Join(
			command.Handle(s.bus, func(ctx context.Context, _ keyed) (r command.Result, err error) {
				s.store.AppendTo(command.Batch(ctx), "order-1", event.AnyVersion, []event.Event{{Type: "Paid", Data: []byte("{}")}})
				if calls++; calls == 1 && inItself {
					err = joined(ctx)
				}
				return r, err
			}),
			command.Handle(s.bus, func(ctx context.Context, _ named) (command.Result, error) {
				return command.Result{}, errors.Join(joined(ctx), joined(ctx))
			}))
		if err != nil {
			t.Fatal(err)
		}
		var first command.Command = named("")
		if inItself {
			first = keyed{"k"}
		}
		if _, err := s.bus.Dispatch(t.Context(), first); !errors.Is(err, mainstem.ErrInvalid) || len(s.events("1")) != 0 {
			t.Errorf("in itself %v: %v, %d events", inItself, err, len(s.events("1")))
		}
		if r := s.dispatch(keyed{"k"}); r.Duplicate || len(s.events("1")) != 1 {
			t.Errorf("in itself %v: afterwards %+v, %d events", inItself, r, len(s.events("1")))
		}
	}
}

// Of many concurrent commands one is committed, and all return its result, for every place of
// Retry.
func TestRacesOfOneKey(t *testing.T) {
	once, retry := command.Idempotency(command.IdempotencyOptions{}), command.Retry(command.RetryOptions{First: time.Millisecond})
	for what, middleware := range map[string][]command.Middleware{"no retry": {once}, "retry outside": {retry, once}, "retry inside": {once, retry}} {
		t.Run(what, func(t *testing.T) {
			onEach(t, racesOfOneKey, middleware...)
		})
	}
}

func racesOfOneKey(t *testing.T, s *shop) {
	for round := range testengines.Rounds(s.log.Log, 20) {
		var wg sync.WaitGroup
		var handled atomic.Int64
		item := fmt.Sprint("item", round)
		for range 8 {
			wg.Go(func() {
				r, err := s.bus.Dispatch(t.Context(), place{ID: fmt.Sprint("r", round), Item: item, Key: item})
				if err != nil || r.Version != 1 || r.AggregateID != fmt.Sprint("r", round) {
					t.Errorf("%+v, %v", r, err)
				}
				if !r.Duplicate {
					handled.Add(1)
				}
			})
		}
		wg.Wait()
		if handled.Load() != 1 || s.sold(item) != 1 || len(s.events(fmt.Sprint("r", round))) != 1 {
			t.Errorf("%d were carried out, sold %d, %d events", handled.Load(), s.sold(item), len(s.events(fmt.Sprint("r", round))))
		}
	}
}

// After a power cut at any moment each command was written completely or not at all: its event, the
// stock, the row of an inline projection, the idempotency record and the row of the audit trail.
func TestPowerCuts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	synced := -1 // number of the last command before the cut whose commit was synced: none up to it may be gone
	for round := range 12 {
		log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		trail, err := command.OpenAudit(log, "shop")
		if err != nil {
			t.Fatal(err)
		}
		under := &logUnderTest{Log: log}
		auditHere, err := command.OpenAudit(under, "shop")
		if err != nil {
			t.Fatal(err)
		}
		s := shopWith(t, under, true, command.Audit(command.AuditOptions{Log: auditHere}), command.Idempotency(command.IdempotencyOptions{}))
		keys, err := kv.Open[any](log, "command/shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 * round {
			id := fmt.Sprint(i)
			_, err := keys.Get(t.Context(), "Place/"+id)
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				t.Fatal(err)
			}
			rows, err2 := trail.Count(t.Context(), command.AuditQuery{AggregateID: id})
			if err2 != nil {
				t.Fatal(err2)
			}
			events, sold, ordered, key := len(s.events(id)), s.sold("item"+id), s.ordered("item"+id), 1
			if err != nil {
				key = 0
			}
			if events != sold || sold != ordered || ordered != key || key != rows {
				t.Errorf("round %d, order %s: %d events, %d sold, %d ordered, %d keys, %d rows", round, id, events, sold, ordered, key, rows)
			}
			if events == 0 && i <= synced {
				t.Errorf("round %d, order %s is gone, and %d was synced", round, id, synced)
			}
		}
		// Every third commit is synced; those after the last such one may be cut.
		cut := 8*round + rand.New(rand.NewPCG(1, uint64(round))).IntN(8)
		var image *vfs.MemFS
		durability := mainstem.OS
		under.commit = func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			b.Durability = durability
			return log.Commit(ctx, b)
		}
		for i := range 8 * (round + 1) {
			if i == cut {
				if i > 0 {
					synced = max(synced, (i-1)/3*3)
				}
				image = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(2, uint64(round)))})
			}
			if durability = mainstem.OS; i%3 == 0 {
				durability = mainstem.Fsync
			}
			s.dispatch(place{ID: fmt.Sprint(i), Item: fmt.Sprint("item", i), Key: fmt.Sprint(i)}) // those of earlier rounds again
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		fs = image
	}
}

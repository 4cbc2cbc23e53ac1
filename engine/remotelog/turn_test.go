package remotelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
)

// slowGets is a log whose gets of "slow" wait until they are let go.
type slowGets struct {
	mainstem.Log
	came chan struct{}
	let  chan struct{}
}

func (l *slowGets) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if string(key) == "slow" {
		l.came <- struct{}{}
		select {
		case <-l.let:
		case <-ctx.Done():
			return mainstem.Record{}, ctx.Err()
		}
	}
	return l.Log.Get(ctx, space, key)
}

// A caller whose answer others have read before it takes the turn reads nothing: no frame may come.
func TestCallerOfAnAnsweredCallReadsNothing(t *testing.T) {
	log := open(t, serve(t, logWith(t, 1), nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	for done := 0; done < 10; {
		if _, err := log.Get(t.Context(), "s", []byte("k")); err != nil {
			t.Fatal(err)
		}
		switch free, tried := log.ReadForAnswered(); {
		case !tried:
		case !free:
			t.Fatal("the turn is not left to nobody")
		default:
			done++
		}
	}
}

// A caller that reads the session for its own answer is interrupted: it can give up, and others
// are answered meanwhile. Each round begins with a session that nobody reads.
func TestCallerThatReadsIsInterrupted(t *testing.T) {
	slow := &slowGets{Log: logWith(t, 1), came: make(chan struct{}, 1), let: make(chan struct{})}
	log := open(t, serve(t, slow, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	get := func() {
		t.Helper()
		if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "v" {
			t.Fatalf("got %q, %v", r.Value, err)
		}
	}
	for i := range 20 {
		get()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := log.Get(ctx, "s", []byte("slow"))
			failed <- err
		}()
		<-slow.came
		get() // answered while the slow one waits
		if i%2 == 0 {
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled get: %v", err)
			}
			continue
		}
		slow.let <- struct{}{}
		if err := <-failed; mainstem.KindOf(err) != mainstem.KindNotFound {
			t.Fatalf("a slow get: %v", err)
		}
		cancel()
	}
}

// Callers come and go, alone and many at once, with small and large values and streams, with
// pauses in which the session's reader takes over: every answer is that of its call.
func TestCallersTakeTurns(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		takeTurns(t, open(t, serve(t, logWith(t, 1), nil).URL, &remotelog.Options{Transport: remotelog.Sessions}))
	})
	t.Run("TLS", func(t *testing.T) { // whose connection is to survive interrupted reads
		url, trust, _ := serveTLS(t, logWith(t, 1), "secret")
		takeTurns(t, open(t, url, &remotelog.Options{Transport: remotelog.Sessions, TLS: trust, Token: "secret"}))
	})
}

func takeTurns(t *testing.T, log *remotelog.Log) {
	t.Helper()
	value := func(i int) []byte {
		return bytes.Repeat([]byte{byte(i)}, []int{1, 100, 3 << 10, 5 << 10, 200 << 10}[i%5])
	}
	for i := range 20 {
		if _, err := log.Commit(t.Context(), put("", fmt.Sprint(i), string(value(i)))); err != nil {
			t.Fatal(err)
		}
	}
	var callers sync.WaitGroup
	for c := range 4 {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			for n := 0; n < 400 && t.Context().Err() == nil; n++ {
				if rng.IntN(50) == 0 {
					time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond) // as long as the session's reader needs to take over
				}
				ctx, cancel := context.WithCancel(t.Context())
				i, stop := rng.IntN(20), rng.IntN(8) == 0
				if stop {
					go cancel()
				}
				r, err := log.Get(ctx, "s", fmt.Append(nil, i))
				if err == nil && !bytes.Equal(r.Value, value(i)) {
					t.Errorf("key %d: %d bytes of %v", i, len(r.Value), r.Value[:1])
				} else if err != nil && (!stop || !errors.Is(err, context.Canceled)) {
					t.Errorf("key %d: %v", i, err)
				}
				if rng.IntN(20) == 0 {
					if n := count(t, log); n != 21 {
						t.Errorf("%d records, want 21", n)
					}
				}
				cancel()
			}
		})
	}
	callers.Wait()
}

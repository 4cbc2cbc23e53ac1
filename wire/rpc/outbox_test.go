package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"pgregory.net/rapid"
)

func numbered(i, size int) mainstem.Record {
	value := fmt.Appendf(make([]byte, 0, size), "%d", i)
	return mainstem.Record{Space: "s", Key: []byte("k"), Version: mainstem.Version(i), Count: 1, Value: value[:max(size, len(value))]}
}

// once is a source that cannot be opened anew.
func once(open func(context.Context) records) source {
	return source{open: func(ctx context.Context, _ bool) records { return open(ctx) }}
}

// tally remembers how many records each message had.
type tally struct {
	mu    sync.Mutex
	sizes []int
}

func (c *tally) send(m *pb.Records) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes = append(c.sizes, len(m.Records))
	return nil
}

func (c *tally) messages() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sizes)
}

// Whatever the pace of both sides, everything arrives once and in order.
func TestPumpSendsEverythingInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 3000).Draw(t, "records")
		size := rapid.SampledFrom([]int{1, 100, 5000}).Draw(t, "size")
		wait := rapid.SampledFrom([]time.Duration{0, linger}).Draw(t, "linger")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 20), 16, 16).Draw(t, "pauses")
		pause := func(i int) {
			for range pauses[i%len(pauses)] {
				runtime.Gosched()
			}
		}
		fail := errors.New("the end")
		next, messages := 1, 0
		err := pump(context.Background(), &memory{}, wait, func(m *pb.Records) error {
			if messages++; len(m.Records) == 0 {
				return errors.New("an empty message")
			}
			pause(messages)
			for _, r := range m.Records {
				if int(r.Version) != next {
					return fmt.Errorf("record %d after %d", r.Version, next-1)
				}
				next++
			}
			return nil
		}, once(func(context.Context) records {
			return func(yield func(mainstem.Record, error) bool) {
				for i := 1; i <= total; i++ {
					pause(i)
					if !yield(numbered(i, size), nil) {
						t.Error("stopped early")
						return
					}
				}
				yield(mainstem.Record{}, fail)
			}
		}))
		if !errors.Is(err, fail) || next != total+1 {
			t.Fatalf("%d of %d records, %v", next-1, total, err)
		}
	})
}

// A follower's record is not held back until there are more.
func TestPumpSendsAtOnceWhenFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var sent tally
		_ = pump(t.Context(), &memory{}, 0, sent.send, once(func(context.Context) records {
			return func(yield func(mainstem.Record, error) bool) {
				for i := 1; i <= 3; i++ {
					yield(numbered(i, 1), nil)
					synctest.Wait() // the sequence waits, and so does everything
					if n := len(sent.messages()); n != i {
						t.Errorf("%d messages sent, want %d", n, i)
					}
				}
			}
		}))
		if time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// Few streams read at a time, and those that wait for their clients are not among them.
func TestFewStreamsReadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, places = 20, 3
		m := &memory{readers: make(chan struct{}, places)}
		var reading, most, sending atomic.Int64
		clients := make(chan struct{})
		send := func(*pb.Records) error {
			sending.Add(1)
			<-clients
			return nil
		}
		several := once(func(context.Context) records {
			return func(yield func(mainstem.Record, error) bool) {
				for i := 1; i <= 3*message.FullRecords; i++ {
					most.Store(max(most.Load(), reading.Add(1)))
					time.Sleep(time.Millisecond)
					reading.Add(-1)
					yield(numbered(i, 1), nil)
				}
			}
		})
		var all sync.WaitGroup
		for range streams {
			all.Go(func() {
				if err := pump(t.Context(), m, linger, send, several); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		if n := sending.Load(); n != streams {
			t.Errorf("%d of %d streams have come to their clients", n, streams)
		}
		close(clients)
		all.Wait()
		if n := most.Load(); n != places {
			t.Errorf("%d streams read at one time, want %d", n, places)
		}
		if n := len(m.readers); n != 0 {
			t.Errorf("%d places are still taken", n)
		}
	})
}

// One that does not follow fills messages, but holds nothing back for long.
func TestPumpFillsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent tally
		_ = pump(t.Context(), &memory{}, linger, sent.send, once(func(context.Context) records {
			return func(yield func(mainstem.Record, error) bool) {
				for i := 1; i <= message.FullRecords+1; i++ {
					yield(numbered(i, 1), nil)
				}
				synctest.Wait()
				if sizes := sent.messages(); len(sizes) != 1 {
					t.Errorf("messages of %v, want one full message", sizes)
				}
				time.Sleep(2 * linger)
				synctest.Wait()
				if sizes := sent.messages(); len(sizes) != 2 {
					t.Errorf("messages of %v: the last record is held back", sizes)
				}
			}
		}))
		if sizes := sent.messages(); len(sizes) != 2 || sizes[0] != message.FullRecords {
			t.Errorf("messages of %v", sizes)
		}
	})
}

// A client that takes nothing stops the sequence.
func TestPumpHoldsTwoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var given atomic.Int64
		done := make(chan error)
		go func() {
			done <- pump(ctx, &memory{}, 0, func(*pb.Records) error { <-ctx.Done(); return ctx.Err() }, once(func(context.Context) records {
				return func(yield func(mainstem.Record, error) bool) {
					for yield(numbered(1, 1), nil) {
						given.Add(1)
					}
				}
			}))
		}()
		synctest.Wait()
		if n := given.Load(); n < message.FullRecords || n > 2*message.FullRecords {
			t.Errorf("%d records were taken from the sequence, %d make a message", n, message.FullRecords)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

// When sending fails, a sequence that waits for records must end.
func TestPumpEndsSequenceWhenSendingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := errors.New("client gone")
		for name, send := range map[string]func(*pb.Records) error{
			"error": func(*pb.Records) error { return fail },
			"panic": func(*pb.Records) error { panic(fail) },
		} {
			err := pump(t.Context(), &memory{}, 0, send, once(func(ctx context.Context) records {
				return func(yield func(mainstem.Record, error) bool) {
					yield(numbered(1, 1), nil)
					<-ctx.Done()
					yield(mainstem.Record{}, ctx.Err())
				}
			}))
			if err == nil || err.Error() == context.Canceled.Error() {
				t.Errorf("%s: ended with %v", name, err)
			}
		}
	})
}

func TestPumpLetsPanicsPass(t *testing.T) {
	var sent tally
	defer func() {
		if v := recover(); v != "bug" || len(sent.messages()) != 1 {
			t.Errorf("recovered %v, messages of %v sent", v, sent.messages())
		}
	}()
	_ = pump(t.Context(), &memory{}, linger, sent.send, once(func(context.Context) records {
		return func(yield func(mainstem.Record, error) bool) {
			yield(numbered(1, 1), nil)
			panic("bug")
		}
	}))
}

package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

const end = session.End

var windows = session.Windows{Call: 32 << 10, Session: 128 << 10}

// pair returns two ends of a connection by TCP, or of a pipe that cannot write without
// waiting.
func pair(t *testing.T, pipe bool, oa, ob *session.Options) (a, b *session.Conn) {
	t.Helper()
	var x, y net.Conn
	if pipe {
		x, y = net.Pipe()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if x, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if y, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	a, b = session.New(x, windows, oa), session.New(y, windows, ob)
	t.Cleanup(func() {
		for _, c := range []*session.Conn{a, b} {
			c.Close(session.ErrClosed)
			c.Wait()
		}
	})
	return a, b
}

// received puts messages together as an end does, and gives credit for what it takes.
type received struct {
	conn     *session.Conn
	parts    map[uint64]*session.Parts
	held     map[uint64]int64 // bytes without credit, by call
	all      int64            // of all calls
	messages map[uint64][][]byte
	ended    int
}

func (r *received) take(h session.Header, p []byte) error {
	if h.Type != session.TypeData {
		return fmt.Errorf("a frame of type %d", h.Type)
	}
	if h.Flags == end {
		r.ended++
		return nil
	}
	if r.parts[h.Call] == nil {
		r.parts[h.Call] = new(session.Parts)
	}
	whole, cost, err := r.parts[h.Call].Add(h.Flags, p)
	if err != nil {
		return err
	}
	r.held[h.Call] += int64(cost)
	r.all += int64(cost)
	if r.held[h.Call] > int64(windows.Call) {
		return fmt.Errorf("call %d has sent %d bytes beyond its credit", h.Call, r.held[h.Call])
	}
	if n := r.held[h.Call]; n > int64(windows.Call)/2 {
		r.conn.Post(session.AppendCredit(nil, h.Call, int(n)))
		r.held[h.Call] = 0
	}
	if r.all > int64(windows.Session)/2 {
		r.conn.Post(session.AppendCredit(nil, 0, int(r.all)))
		r.all = 0
	}
	if whole {
		r.messages[h.Call] = append(r.messages[h.Call], r.parts[h.Call].Body)
		if h.Flags&end != 0 {
			r.ended++
		}
	}
	return nil
}

// Many calls send messages of all sizes at a time; each arrives whole and in its order, and
// no call goes beyond its credit.
func TestMessagesArriveWholeAndInOrder(t *testing.T) {
	for name, pipe := range map[string]bool{"tcp": false, "pipe": true} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, pipe, nil, nil)
			const count = 40
			sent := map[uint64][][]byte{}
			flows := make([]session.Flow, count+1)
			random := rand.New(rand.NewPCG(1, 2))
			for call := uint64(1); call <= count; call++ {
				for range 1 + random.IntN(6) {
					size := []int{0, 1, 100, session.SmallMessage, session.SmallMessage + 1, 40 << 10, 300 << 10}[random.IntN(7)]
					sent[call] = append(sent[call], bytes.Repeat([]byte{byte(call + uint64(size))}, size))
				}
			}
			go credits(a, flows)
			var senders sync.WaitGroup
			for call := uint64(1); call <= count; call++ {
				senders.Go(func() {
					for i, m := range sent[call] {
						flags := session.Flags(0)
						if i == len(sent[call])-1 {
							flags = end
						}
						if _, err := a.Send(t.Context(), session.TypeData, flags, call, nil, m, &flows[call]); err != nil {
							t.Error(err)
						}
					}
				})
			}
			r := &received{conn: b, parts: map[uint64]*session.Parts{}, held: map[uint64]int64{}, messages: map[uint64][][]byte{}}
			in := b.NewReader(nil)
			for r.ended < count {
				h, p, err := in.Next()
				if err == nil {
					err = r.take(h, p)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			senders.Wait()
			for call, want := range sent {
				if len(want) != len(r.messages[call]) {
					t.Fatalf("call %d: %d messages arrived, want %d", call, len(r.messages[call]), len(want))
				}
				for i := range want {
					if !bytes.Equal(want[i], r.messages[call][i]) {
						t.Fatalf("call %d: message %d of %d bytes arrived as %d others", call, i, len(want[i]), len(r.messages[call][i]))
					}
				}
			}
		})
	}
}

// What many goroutines post at a time arrives whole, that of each in its order.
func TestPostAmongMany(t *testing.T) {
	const posters, frames = 20, 500
	for _, calls := range []int{1, posters} {
		a, b := pair(t, false, nil, nil)
		var all sync.WaitGroup
		for call := range uint64(posters) {
			all.Go(func() {
				for i := range frames {
					a.PostAmong(calls, session.AppendFrame(nil, session.TypeData, 0, call, binary.BigEndian.AppendUint32(nil, uint32(i))))
					if i%7 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		in := b.NewReader(nil)
		var next [posters]uint32
		for range posters * frames {
			h, p, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			if got := binary.BigEndian.Uint32(p); got != next[h.Call] {
				t.Fatalf("among %d: frame %d of call %d came when %d was next", calls, got, h.Call, next[h.Call])
			}
			next[h.Call]++
		}
		all.Wait()
	}
}

// credits takes the credit that comes, until the connection ends.
func credits(c *session.Conn, flows []session.Flow) {
	in := c.NewReader(nil)
	for {
		h, p, err := in.Next()
		if err != nil {
			return
		}
		if n, err := session.ParseCredit(p); err == nil && h.Type == session.TypeCredit {
			c.Credit(&flows[h.Call], n)
		}
	}
}

// The sender of a large message learns of each part of it that was taken.
func TestSenderLearnsOfProgress(t *testing.T) {
	a, b := pair(t, false, nil, nil)
	progress := make(chan struct{})
	flow := session.Flow{Progress: func() { progress <- struct{}{} }}
	sent := make(chan error)
	go func() {
		_, err := a.Send(t.Context(), session.TypeData, end, 1, nil, make([]byte, 3*session.ProgressSize), &flow)
		sent <- err
	}()
	go func() { // so that nothing waits for the network
		in := b.NewReader(nil)
		for {
			if _, _, err := in.Next(); err != nil {
				return
			}
		}
	}()
	given := int64(windows.Call)
	give := func(upTo int64) {
		for ; given < upTo; given += 8 << 10 {
			a.Credit(nil, 8<<10)
			a.Credit(&flow, 8<<10)
		}
	}
	for part := int64(1); part <= 2; part++ {
		give(part * session.ProgressSize)
		<-progress
	}
	give(3 * session.ProgressSize)
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
	case <-progress:
		t.Error("the end of the message counts as progress, too")
		<-sent
	}
}

// A small message passes a large one for which there is no credit, and one in the queue.
func TestSmallMessagesGoFirst(t *testing.T) {
	a, b := pair(t, false, nil, nil)
	var large, small session.Flow
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() {
		_, err := a.Send(ctx, session.TypeData, end, 1, nil, make([]byte, 1<<20), &large)
		stopped <- err
	}()
	in := b.NewReader(nil)
	got := 0
	for got < int(windows.Call) { // all that it has credit for
		h, p, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Call == 1 {
			got += len(p)
			if h.Flags&session.First != 0 {
				got -= 4
			}
		}
	}
	if _, err := a.Send(ctx, session.TypeData, end, 2, nil, []byte("small"), &small); err != nil {
		t.Fatal(err)
	}
	if h, p, err := in.Next(); err != nil || h.Call != 2 || string(p) != "small" {
		t.Errorf("got call %d, %q, %v", h.Call, p, err)
	}
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the large message ended with %v", err)
	}
}

// Calls whose receivers take nothing use up the session's credit, but one of which nothing
// is outstanding sends a piece all the same.
func TestSlowReceiversDoNotStopOthers(t *testing.T) {
	a, b := pair(t, false, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	defer senders.Wait()
	defer cancel()
	flows := make([]session.Flow, 10)
	for call := uint64(1); call <= 8; call++ { // twice the credit of the session
		senders.Go(func() {
			_, _ = a.Send(ctx, session.TypeData, 0, call, nil, make([]byte, windows.Call), &flows[call])
		})
	}
	in := b.NewReader(nil)
	for got := 0; got < int(windows.Session); {
		h, p, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		got += len(p)
		if h.Flags&(session.First|session.Last) == session.First {
			got -= 4
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.Send(ctx, session.TypeData, 0, 9, nil, make([]byte, 8<<10), &flows[9])
		done <- err
	}()
	for {
		h, _, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Call == 9 && h.Flags&session.Last != 0 {
			break
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A peer that does not answer is given up; one that answers is not.
func TestSilentPeerEndsConnection(t *testing.T) {
	quick := &session.Options{KeepAlive: 20 * time.Millisecond}
	a, _ := pair(t, false, quick, nil)
	go func() {
		in := a.NewReader(nil)
		for {
			if _, _, err := in.Next(); err != nil {
				return
			}
		}
	}()
	<-a.Done() // b reads nothing, so it answers no ping
	if err := a.Err(); !errors.Is(err, session.ErrSilent) {
		t.Errorf("the connection ended with %v", err)
	}

	a, b := pair(t, false, &session.Options{KeepAlive: 3 * time.Second}, &session.Options{KeepAlive: 3 * time.Second})
	for _, c := range []*session.Conn{a, b} {
		go func() {
			in := c.NewReader(nil)
			for {
				if _, _, err := in.Next(); err != nil {
					return
				}
			}
		}()
	}
	testkit.Eventually(t, "signs of life go both ways", func() bool {
		in, out := a.Bytes()
		return in > session.HeaderSize && out > session.HeaderSize
	})
	if err := errors.Join(a.Err(), b.Err()); err != nil {
		t.Error(err)
	}
}

// A peer that takes nothing does not make Post or Send with a context wait without end.
func TestStuckNetworkStopsNobody(t *testing.T) {
	a, _ := pair(t, false, nil, nil)
	a.SetWindows(session.Windows{Call: 1 << 30, Session: 1 << 30})
	ctx, cancel := context.WithCancel(t.Context())
	var flow session.Flow
	stopped := make(chan error)
	go func() {
		_, err := a.Send(ctx, session.TypeData, 0, 1, nil, make([]byte, 64<<20), &flow)
		stopped <- err
	}()
	testkit.Eventually(t, "the network is full", func() bool {
		_, before := a.Bytes()
		a.Post(session.AppendFrame(nil, session.TypePong, 0, 0))
		_, after := a.Bytes()
		return before > 64<<10 && before == after
	})
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the message ended with %v", err)
	}
	throttled := make(chan struct{})
	a.Queue(make([]byte, 1<<20))
	go func() { a.Throttle(); close(throttled) }()
	a.Close(session.ErrClosed)
	<-throttled
}

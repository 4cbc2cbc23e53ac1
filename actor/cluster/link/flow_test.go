package link_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// slow returns a handler that blocks until release is closed, or the session ends.
func slow(release <-chan struct{}) *hears {
	return &hears{message: func(p *link.Peer, _ uint32, _ []byte) {
		select {
		case <-release:
		case <-p.Done():
		}
	}}
}

// joined returns the session of a new node a with a new node b.
func joined(t testing.TB, atB link.Handler, change func(oa, ob *link.Options)) (*link.Peer, *link.Endpoint) {
	t.Helper()
	oa, ob := plain("a"), plain("b")
	if change != nil {
		change(oa, ob)
	}
	b := open(t, ob, atB)
	oa.Resolve = at(b)
	return peer(t, open(t, oa, &hears{}), "b"), b
}

// TestSlowReceiverSlowsItsSenders has connections that hold nothing, and waits until all
// goroutines stand still: what the receiver has not handled then fills the window, and no
// message more is taken.
func TestSlowReceiverSlowsItsSenders(t *testing.T) {
	for mode, name := range map[link.Mode]string{link.ExactlyOnce: "exactly once", link.AtMostOnce: "at most once"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { slowReceiver(t, mode) })
		})
	}
}

func slowReceiver(t *testing.T, mode link.Mode) {
	const window, size = 1 << 20, 1000
	release := make(chan struct{})
	atB := slow(release)
	oa, ob := plain("a"), plain("b")
	oa.Listen, ob.Listen, oa.Connections, oa.Window = "", "", 1, window
	oa.Resolve = func(context.Context, string) (string, error) { return "b", nil }
	a, b := open(t, oa, &hears{}), open(t, ob, atB)
	a.PipeForTest(b)
	p := peer(t, a, "b")

	body := bytes.Repeat([]byte("x"), size)
	taken := int64(0)
	for before := int64(-1); before < taken; synctest.Wait() {
		before = taken
		for taken < 10*window/size {
			err := p.Send(noWait, 1, mode, bytesOf(body))
			if err == nil {
				taken++
				continue
			}
			if !errors.Is(err, link.ErrWindow) || !errors.Is(err, mainstem.ErrUnavailable) {
				t.Fatal(err)
			}
			break
		}
	}
	// Beyond the window is what the receiver has read, and not handled: a frame at most.
	if least, most := int64(window/(size+100)), int64((window+64<<10)/size)+1; taken < least || taken > most {
		t.Errorf("%d messages were taken, want %d to %d", taken, least, most)
	}
	if got := p.Stats().Waiting; got < window || got > window+2*size {
		t.Errorf("%d bytes wait, the window has %d", got, window)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	err := p.Send(ctx, 1, mode, bytesOf(body))
	cancel()
	if !errors.Is(err, link.ErrWindow) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("Send with a context that ended: %v", err)
	}
	var senders sync.WaitGroup
	for range 20 {
		senders.Go(func() {
			for range 50 {
				if err := p.Send(t.Context(), 1, mode, bytesOf(body)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	synctest.Wait()
	if s := p.Stats(); s.Blocked != 21 || s.SentMessages != uint64(taken) || atB.count.Load() != 0 {
		t.Errorf("%d calls waited, %d messages were taken, %d handled, want 21, %d and 0", s.Blocked, s.SentMessages, atB.count.Load(), taken)
	}
	close(release)
	senders.Wait()
	synctest.Wait()
	if got := atB.count.Load(); got != taken+20*50 {
		t.Errorf("%d messages arrived, want %d", got, taken+20*50)
	}
}

// TestWaitersSeeTheEnd checks that Sends that wait for credit fail when the session ends.
func TestWaitersSeeTheEnd(t *testing.T) {
	p, b := joined(t, slow(nil), func(oa, _ *link.Options) { oa.Connections, oa.Window = 1, link.SmallestWindow })
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			for {
				if err := p.Send(within(t), 1, link.ExactlyOnce, bytesOf(make([]byte, 5000))); err != nil {
					if !errors.Is(err, mainstem.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	testkit.Eventually(t, "senders that wait", func() bool { return p.Stats().Blocked >= 10 })
	shut(t, b)
	waiting.Wait()
}

// TestOtherLanesGoOn checks that a handler that blocks in a lane of one connection does not block
// those of other connections.
func TestOtherLanesGoOn(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var others atomic.Int64
	atB := &hears{message: func(p *link.Peer, lane uint32, _ []byte) {
		if lane == 0 {
			<-release
			return
		}
		others.Add(1)
	}}
	p, _ := joined(t, atB, func(oa, ob *link.Options) { oa.Connections, ob.Connections = 2, 2 })
	for range 100 {
		for lane := range uint32(2) {
			if err := p.Send(within(t), lane, link.ExactlyOnce, number(1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Eventually(t, "the messages of the other lane", func() bool { return others.Load() == 100 })
}

func TestSizes(t *testing.T) {
	sizes := []int{0, 1, 200, 4_000, 65_000, 65_495, 65_496, 65_497, 65_504, 65_536, 131_000, 1 << 20, 5<<20 + 1}
	for _, c := range []link.Compression{link.Uncompressed, link.LZ4, link.Zstandard} {
		var heard hears
		p, _ := joined(t, &heard, func(oa, ob *link.Options) {
			oa.Compression, oa.MaxMessage, ob.MaxMessage = c, 6<<20, 6<<20
			oa.Window = link.SmallestWindow
		})
		want := make([][]byte, len(sizes))
		for i, size := range sizes {
			want[i] = chaosMessage(nil, uint64(i), size)[8:]
			if err := p.Send(within(t), 5, link.Mode(i%2), bytesOf(want[i])); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, "all messages", func() bool { return heard.count.Load() == int64(len(sizes)) })
		for i := range want {
			if !bytes.Equal(heard.bodies[i], want[i]) {
				t.Errorf("%s: the message of %d bytes came as one of %d", c, len(want[i]), len(heard.bodies[i]))
			}
		}
		sent := p.Stats().SentBytes
		if total := uint64(8 << 20); c == link.Uncompressed && sent < total/2 || c != link.Uncompressed && sent > total/4 {
			t.Errorf("%s: %d bytes were sent", c, sent)
		}
	}
}

func TestTooLong(t *testing.T) {
	var heard hears
	p, _ := joined(t, &heard, func(_, ob *link.Options) { ob.MaxMessage = 1000 })
	for _, size := range []int{1001, 70_000, 1 << 20} {
		err := p.Send(within(t), 1, link.ExactlyOnce, bytesOf(make([]byte, size)))
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a message of %d bytes: %v", size, err)
		}
	}
	if err := p.Send(within(t), 1, link.ExactlyOnce, bytesOf(make([]byte, 1000))); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the message", func() bool { return heard.count.Load() == 1 })
}

// TestErrorsOfTheEncoder: what it fails with is returned, and nothing is sent.
func TestErrorsOfTheEncoder(t *testing.T) {
	var heard hears
	p, _ := joined(t, &heard, nil)
	wrong := errors.New("cannot be encoded")
	err := p.Send(within(t), 1, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return append(dst, "half"...), wrong })
	if err != wrong {
		t.Errorf("Send returned %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = p.Send(within(t), 1, link.ExactlyOnce, func([]byte) ([]byte, error) { panic("encoder") })
	}()
	own := []byte("not appended")
	if err := p.Send(within(t), 1, link.ExactlyOnce, func([]byte) ([]byte, error) { return own, nil }); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the message", func() bool { return heard.count.Load() == 1 })
	if got := string(heard.bodies[0]); got != "not appended" {
		t.Errorf("received %q", got)
	}
}

// TestLargeMessageGivenUp: a message that cannot be sent to its end is not received,
// and those after it are.
func TestLargeMessageGivenUp(t *testing.T) {
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release() // b waits for its handler when it is closed
	var lengths []int
	var mu sync.Mutex
	atB := &hears{message: func(_ *link.Peer, _ uint32, body []byte) {
		<-hold
		mu.Lock()
		defer mu.Unlock()
		lengths = append(lengths, len(body))
	}}
	p, _ := joined(t, atB, func(oa, _ *link.Options) { oa.Connections, oa.Window = 1, link.SmallestWindow })
	if err := p.Send(within(t), 1, link.ExactlyOnce, bytesOf([]byte("first"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := p.Send(ctx, 1, link.ExactlyOnce, bytesOf(make([]byte, 10<<20))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it was sent: %v", err)
	}
	release()
	for _, size := range []int{100_000, 7} {
		if err := p.Send(within(t), 1, link.ExactlyOnce, bytesOf(make([]byte, size))); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "three messages", func() bool { return atB.count.Load() == 3 })
	if lengths[0] != 5 || lengths[1] != 100_000 || lengths[2] != 7 {
		t.Errorf("received messages of %d bytes", lengths)
	}
}

// TestSendAllocatesNothing: a message is encoded where it is written from.
func TestSendAllocatesNothing(t *testing.T) {
	atB := &hears{message: func(*link.Peer, uint32, []byte) {}}
	p, _ := joined(t, atB, nil)
	body := make([]byte, messageSize)
	ctx := within(t)
	send := func() {
		if err := p.Send(ctx, 1, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return append(dst, body...), nil }); err != nil {
			t.Error(err)
		}
	}
	for range 20_000 {
		send()
	}
	if got := testing.AllocsPerRun(20_000, send); got > 0.1 {
		t.Errorf("%v allocations per message", got)
	}
}

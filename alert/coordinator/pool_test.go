package coordinator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestPoolProgram runs random programs: acquire, release, break, move and sweep in any
// order keep the pool's promises.
func TestPoolProgram(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &fake{name: "s"}
		current := 0
		o := quick(nil).withDefaults().OMNIbus
		o.MaxConnections = rapid.IntRange(1, 4).Draw(rt, "max")
		p := newPool(&o, func(ctx context.Context, c Credential) (Conn, int, error) {
			conn, err := s.Connect(ctx, c)
			return conn, current, err
		})
		var held []*pooled
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"acquire", "acquire", "release", "release", "break", "die", "move", "down", "sweep"}).Draw(rt, "step") {
			case "acquire":
				cred := Credential{fmt.Sprint("u", rapid.IntRange(0, 2).Draw(rt, "user")), fmt.Sprint("p", rapid.IntRange(0, 1).Draw(rt, "password"))}
				c, err := p.acquire(t.Context(), keyOf(nil, cred), cred, time.Nanosecond)
				if err != nil {
					if len(held) < o.MaxConnections && s.down == nil {
						rt.Fatalf("%d of %d connections are in use, and none is given: %v", len(held), o.MaxConnections, err)
					}
					continue
				}
				conn := c.conn.(*fakeConn)
				if conn.cred != cred || conn.closed || conn.dead || c.server != current {
					rt.Fatalf("%v was given %+v", cred, conn)
				}
				held = append(held, c)
			case "release", "break":
				if len(held) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
				p.release(held[i], rapid.Bool().Draw(rt, "broken"))
				held = append(held[:i], held[i+1:]...)
			case "die":
				for _, c := range s.conns {
					c.dead = c.dead || rapid.Bool().Draw(rt, "dead") && !inUse(held, c)
				}
			case "move":
				current = rapid.IntRange(0, 2).Draw(rt, "server")
				p.move(current)
				p.sweep()
			case "down":
				s.down = nil
				if rapid.Bool().Draw(rt, "is down") {
					s.down = refusing
				}
			case "sweep":
				p.sweep()
			}
			busy, idle, waiting := p.counts()
			if busy != len(held) || busy+idle > o.MaxConnections || waiting != 0 || s.open != busy+idle {
				rt.Fatalf("%d busy (held %d), %d idle, %d waiting, %d open, at most %d", busy, len(held), idle, waiting, s.open, o.MaxConnections)
			}
		}
		p.close()
		for _, c := range held {
			p.release(c, false)
		}
		if s.open != 0 {
			rt.Fatalf("%d connections are open after the pool was closed", s.open)
		}
	})
}

// TestIdleConnectionsMakeRoomForABurst: each of many requests of one user gets a place of the idle
// connections of another, though those before it keep theirs.
func TestIdleConnectionsMakeRoomForABurst(t *testing.T) {
	s, closing := &fake{name: "s"}, make(chan struct{})
	o := quick(nil).withDefaults().OMNIbus
	o.MaxConnections = 10
	p := newPool(&o, func(ctx context.Context, c Credential) (Conn, int, error) {
		conn, err := s.Connect(ctx, c)
		return slowToClose{conn, closing}, 0, err
	})
	acquire := func(user string) (*pooled, error) {
		cred := Credential{user, "p"}
		return p.acquire(t.Context(), keyOf(nil, cred), cred, o.WaitTimeout)
	}
	var first []*pooled
	for range o.MaxConnections {
		c, err := acquire("a")
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, c)
	}
	for _, c := range first {
		p.release(c, false)
	}
	got := make(chan *pooled, o.MaxConnections)
	var burst sync.WaitGroup
	for range o.MaxConnections {
		burst.Go(func() {
			c, err := acquire("b")
			if err != nil {
				t.Error(err)
				return
			}
			got <- c
		})
	}
	testkit.Eventually(t, "all requests wait", func() bool {
		_, _, waiting := p.counts()
		return waiting == o.MaxConnections
	})
	close(closing)
	burst.Wait()
	if busy, idle, waiting := p.counts(); busy != len(got) || len(got) != o.MaxConnections || idle != 0 || waiting != 0 || s.most > o.MaxConnections {
		t.Errorf("%d of %d have a connection: %d busy, %d idle, %d waiting, at most %d open", len(got), o.MaxConnections, busy, idle, waiting, s.most)
	}
	p.close()
	for range len(got) {
		p.release(<-got, false)
	}
}

// slowToClose is a connection whose Close waits.
type slowToClose struct {
	Conn
	closing <-chan struct{}
}

func (c slowToClose) Close() error {
	<-c.closing
	return c.Conn.Close()
}

func inUse(held []*pooled, c *fakeConn) bool {
	for _, h := range held {
		if h.conn == Conn(c) {
			return true
		}
	}
	return false
}

// TestPoolUnderContention: every request gets a connection in the end, of its own
// credential, though requests give up and connections break all the time.
func TestPoolUnderContention(t *testing.T) {
	s := &fake{name: "s"}
	o := quick(nil).withDefaults().OMNIbus
	o.MaxConnections = 2
	p := newPool(&o, func(ctx context.Context, c Credential) (Conn, int, error) {
		conn, err := s.Connect(ctx, c)
		return conn, 0, err
	})
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			for i := range 200 {
				cred := Credential{fmt.Sprint("u", (g+i)%5), "p"}
				wait := time.Minute
				if (g+i)%7 == 0 {
					wait = time.Microsecond
				}
				c, err := p.acquire(t.Context(), keyOf(nil, cred), cred, wait)
				if err != nil {
					if wait == time.Minute {
						t.Error(err)
					}
					continue
				}
				if conn, ok := c.conn.(*fakeConn); !ok || conn.cred != cred {
					t.Errorf("%v was given %v", cred, conn.cred)
				}
				p.release(c, i%11 == 0)
			}
		})
	}
	wg.Wait()
	busy, idle, waiting := p.counts()
	if busy != 0 || waiting != 0 || s.most > 2 {
		t.Error(busy, idle, waiting, s.most)
	}
	p.close()
	if s.open != 0 {
		t.Errorf("%d connections are open", s.open)
	}
}

package ingest

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrainReadsAfterItWasWoken: a reader that Close has woken, whose deadline is over when
// it runs, takes what is there; then it ends.
func TestDrainReadsAfterItWasWoken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sender, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := sender.Write([]byte("sent")); err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{false, true} { // Close comes before the reader looks, or after
		closing, stop := context.WithCancel(t.Context())
		if !late {
			stop()
		}
		d := drain{closing: closing, givenUp: t.Context()}
		b, calls := make([]byte, 2), 0
		read := func() (int, error) {
			if calls++; calls == 1 {
				stop()
				wake(conn)
			}
			return conn.Read(b)
		}
		if n, err := d.do(conn.SetReadDeadline, read); n != 2 || err != nil {
			t.Errorf("late %v: read %d bytes: %v", late, n, err)
		}
		stop()
	}
	closing, stop := context.WithCancel(t.Context())
	stop()
	d := drain{closing: closing, givenUp: t.Context()}
	if _, err := sender.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	var deadline time.Time
	calls := 0
	stands := func() (int, error) { // it does not run until its first deadline is over
		for calls++; calls == 1 && time.Since(deadline) < 5*time.Millisecond; {
			runtime.Gosched()
		}
		return conn.Read(make([]byte, 1))
	}
	if n, err := d.do(func(at time.Time) error { deadline = at; return conn.SetReadDeadline(at) }, stands); n != 1 || err != nil {
		t.Errorf("read %d bytes after the deadline: %v", n, err)
	}
	n, err := d.do(conn.SetReadDeadline, func() (int, error) { return conn.Read(make([]byte, 1)) })
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes of an empty connection: %v", n, err)
	}
}

// TestDrainDoesNotCountAStandstill: a reader that stood still past every limit, with its
// deadline over, still takes what is there.
func TestDrainDoesNotCountAStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, stop := context.WithCancel(t.Context())
		stop()
		d := drain{closing: closing, givenUp: t.Context()}
		calls := 0
		n, err := d.do(func(time.Time) error { return nil }, func() (int, error) {
			if calls++; calls == 1 {
				time.Sleep(2 * drainLimit)
				return 0, os.ErrDeadlineExceeded
			}
			return 1, nil
		})
		if n != 1 || err != nil {
			t.Errorf("read %d bytes after a standstill: %v", n, err)
		}
	})
}

// TestDrainEndsBeforeASenderThatGoesOn: what comes now and then holds up Close for a bounded
// time.
func TestDrainEndsBeforeASenderThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, stop := context.WithCancel(t.Context())
		stop()
		d := drain{closing: closing, givenUp: t.Context()}
		began := time.Now()
		for {
			_, err := d.do(func(time.Time) error { return nil }, func() (int, error) {
				time.Sleep(drainQuiet - 1)
				return 1, nil
			})
			if err == nil && time.Since(began) <= drainLimit+drainQuiet {
				continue
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			return
		}
	})
}

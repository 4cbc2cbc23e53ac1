package natslog_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// fetched is how many messages a log that reads the stream takes at once.
const fetched = 1000

// optStart finds where a consumer that is asked for begins.
var optStart = regexp.MustCompile(`CONSUMER\.CREATE[^{]*\{.*"opt_start_seq":(\d+)`)

// openAgain opens another log on the stream, behind a proxy, which calls onFetch before it passes
// on a request for messages: the nth one of the newest consumer. Where all consumers began is in
// from. It fails unless the new log holds what the first one does.
func (l *tidy) openAgain(onFetch func(p *proxy, from []int, n int)) *testkit.Lines {
	l.t.Helper()
	p := newProxy(l.t, l.url)
	var mu sync.Mutex
	var from []int
	n, opened := 0, false
	see := func(sent []byte) {
		mu.Lock()
		defer mu.Unlock()
		if m := optStart.FindSubmatch(sent); m != nil {
			start, err := strconv.Atoi(string(m[1]))
			if err != nil {
				l.t.Error(err)
			}
			from, n = append(from, start), 0
		}
		if !opened && bytes.Contains(sent, []byte("CONSUMER.MSG.NEXT")) {
			n++
			onFetch(p, from, n)
		}
	}
	p.onRequest.Store(&see)
	var lines testkit.Lines
	o := l.o
	o.Logger = lines.Logger()
	log := open(l.t, p.url(), o)
	mu.Lock()
	opened = true // onFetch is not called any more
	mu.Unlock()
	if got, want := contents(l.t, log), contents(l.t, l.Log); got != want {
		l.t.Fatalf("the log that was opened differs: %s", difference(got, want))
	}
	return &lines
}

// What removes a record may leave the stream, and the record too, after a log that is opened has
// read the record and before it reads what removes it. Then it must read everything again. So
// it must if what removes it was written after reading began.
func TestMessagesLeaveWhileTheStreamIsRead(t *testing.T) {
	for what, late := range map[string]bool{"that were there": false, "that were written meanwhile": true} {
		t.Run(what, func(t *testing.T) {
			l := openTidy(t)
			l.write(func(b *mainstem.Batch) {
				b.Ensure("s", mainstem.Policy{})
				b.Ensure("newest", mainstem.Policy{})
			})
			for n := range fetched {
				l.write(func(b *mainstem.Batch) { b.Put("s", []byte("k"), fmt.Append(nil, n)) })
			}
			remove := func() {
				l.write(func(b *mainstem.Batch) {
					b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "s", Key: []byte("k"), Version: 2})
				})
			}
			if !late {
				remove()
			}
			l.write(func(b *mainstem.Batch) { b.Put("newest", []byte("k"), nil) }) // it stays
			lines := l.openAgain(func(_ *proxy, from []int, n int) {
				if len(from) != 1 || n != 2 {
					return
				}
				want := uint64(fetched + 1) // without the record and what removes it
				if late {
					remove()
					l.write(func(b *mainstem.Batch) { b.Put("newest", []byte("k2"), nil) })
					want++
				}
				if n := l.messages(); n != want {
					t.Errorf("%d messages are left, want %d", n, want)
				}
			})
			if n := lines.Count("other processes deleted messages"); n == 0 {
				t.Error("the stream was read only once")
			}
		})
	}
}

// A log that is opened over a connection that keeps breaking goes on where it was.
func TestConnectionBreaksWhileTheStreamIsRead(t *testing.T) {
	l := openTidy(t)
	l.write(func(b *mainstem.Batch) { b.Ensure("s", mainstem.Policy{}) })
	const breaks = 3
	for n := range breaks * fetched {
		l.write(func(b *mainstem.Batch) { b.Put("s", fmt.Append(nil, "key ", n), fmt.Append(nil, n)) })
	}
	var starts []int // of the consumers since the connection first broke
	broken, before := 0, 0
	l.openAgain(func(p *proxy, from []int, n int) {
		if n == 2 && broken < breaks { // it has read as much as it takes at once
			if broken++; broken == 1 {
				before = len(from)
			}
			p.heal()
		}
		if broken > 0 {
			starts = from[before:]
		}
	})
	if broken == 0 {
		t.Error("the connection did not break")
	}
	if !slices.IsSorted(starts) || len(starts) > 0 && starts[0] <= fetched {
		t.Errorf("after the connection broke the stream was read from its messages %v", starts)
	}
}

package natslog_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// behind is a log of which the connection can be lost, and another one on the same stream.
type behind struct {
	*tidy
	proxy *proxy
	log   *natslog.Log
	lines testkit.Lines
}

func openBehind(t *testing.T) *behind {
	t.Helper()
	b := &behind{tidy: openTidy(t)}
	b.proxy = newProxy(t, b.url)
	o := b.o
	o.Connect, o.Logger = []nats.Option{nats.IgnoreDiscoveredServers()}, b.lines.Logger()
	b.log = open(t, b.proxy.url(), o)
	return b
}

// while carries out work during which the log learns nothing, and has messages leave the
// stream that it has not seen.
func (b *behind) while(work func()) {
	b.t.Helper()
	if _, err := b.log.Head(b.t.Context()); err != nil { // it has seen everything before
		b.t.Fatal(err)
	}
	b.proxy.dropAnswers.Store(true)
	work()
	b.write(func(w *mainstem.Batch) { // the newest message stays
		w.Ensure("newest", mainstem.Policy{History: 1})
		w.Put("newest", []byte("k"), nil)
	})
	b.messages()
	b.proxy.heal()
}

// agree fails unless the log holds what the others hold.
func (b *behind) agree() {
	b.t.Helper()
	if got, want := contents(b.t, b.log), contents(b.t, b.Log); got != want {
		b.t.Fatalf("the log that was behind differs: %s", difference(got, want))
	}
	if _, err := b.log.Check(b.t.Context(), func(p mainstem.Problem) { b.t.Errorf("%s: %s", p.Where, p.What) }); err != nil {
		b.t.Fatal(err)
	}
	if n := b.lines.Count("the state is read anew"); n == 0 {
		b.t.Error("the log has not said that it read its state anew: no message was missed")
	}
}

// What a process has not seen of a record, a key or a space may have left the stream together
// with it. A process that was away for that long must not go on with what it knew.
func TestProcessThatMissedMessages(t *testing.T) {
	const all, some, gone = "all", "some", "gone"
	key := func(n int) []byte { return fmt.Append(nil, "key ", n) }
	for what, work := range map[string]func(b *behind){
		"a record is removed": func(b *behind) {
			b.write(func(w *mainstem.Batch) {
				w.Add(mainstem.Write{Op: mainstem.OpRemove, Space: all, Key: key(1), Version: 2})
			})
		},
		"a record is rewritten, then removed": func(b *behind) {
			b.write(func(w *mainstem.Batch) { w.Rewrite(all, key(1), 2, []byte("new"), nil) })
			b.write(func(w *mainstem.Batch) {
				w.Add(mainstem.Write{Op: mainstem.OpRemove, Space: all, Key: key(1), Version: 2})
			})
		},
		"keys are forgotten": func(b *behind) {
			b.write(func(w *mainstem.Batch) {
				for n := range 3 {
					w.Add(mainstem.Write{Op: mainstem.OpForget, Space: some, Key: key(n)})
				}
			})
		},
		"a space is dropped": func(b *behind) {
			if err := b.DropSpace(b.t.Context(), gone); err != nil {
				b.t.Fatal(err)
			}
		},
		"a space is dropped and created": func(b *behind) {
			if err := b.DropSpace(b.t.Context(), gone); err != nil {
				b.t.Fatal(err)
			}
			b.messages()
			b.write(func(w *mainstem.Batch) {
				w.Ensure(gone, mainstem.Policy{})
				w.Put(gone, key(9), []byte("again"))
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBehind(t)
			for n := range 12 {
				b.write(func(w *mainstem.Batch) {
					w.Ensure(all, mainstem.Policy{})
					w.Put(all, key(n%3), fmt.Append(nil, "value ", n))
				})
				b.write(func(w *mainstem.Batch) {
					w.Ensure(some, mainstem.Policy{History: 1})
					w.Put(some, key(n%3), fmt.Append(nil, "value ", n))
				})
				b.write(func(w *mainstem.Batch) {
					w.Ensure(gone, mainstem.Policy{})
					w.Put(gone, key(n%3), fmt.Append(nil, "value ", n))
				})
			}
			b.while(func() { work(b) })
			b.agree()
			for _, space := range []string{all, some, gone} { // it judges by what is there
				for version := range mainstem.Version(6) {
					same(t, b, space, key(1), version)
				}
			}
			b.agree()
		})
	}
}

// same commits to one log and then to the other with the same condition, and fails unless both
// give the same answer: the key is then as it was before.
func same(t *testing.T, b *behind, space string, key []byte, version mainstem.Version) {
	t.Helper()
	var kinds [2]mainstem.Kind
	for i, log := range []*natslog.Log{b.log, b.Log} {
		w := mainstem.NewBatch()
		w.IfVersion(space, key, version)
		_, err := log.Commit(t.Context(), w)
		kinds[i] = mainstem.KindOf(err)
	}
	if kinds[0] != kinds[1] {
		t.Errorf("%s %s at version %d: %v, want %v", space, key, version, kinds[0], kinds[1])
	}
}

// What is written to a space that was dropped meanwhile is refused, and not lost.
func TestWriteToASpaceThatWasDroppedUnseen(t *testing.T) {
	b := openBehind(t)
	b.write(func(w *mainstem.Batch) {
		w.Ensure("s", mainstem.Policy{})
		w.Put("s", []byte("k"), []byte("v"))
	})
	b.while(func() {
		if err := b.DropSpace(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := b.log.Head(t.Context()); err != nil { // the connection is back
		t.Fatal(err)
	}
	w := mainstem.NewBatch()
	w.Put("s", []byte("k"), []byte("lost"))
	if _, err := b.log.Commit(t.Context(), w); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatalf("a write to a space that is no more: %v, want NotFound", err)
	}
	b.agree()
}

// A reader that follows goes on behind what it has seen when the state is replaced.
func TestFollowerOfAProcessThatMissedMessages(t *testing.T) {
	b := openBehind(t)
	put := func(value any) {
		b.write(func(w *mainstem.Batch) {
			w.Ensure("s", mainstem.Policy{History: 1})
			w.Put("s", []byte("all"), fmt.Append(nil, value))
		})
	}
	put("first")
	f := follow(t, b.log)
	f.sees(t, []string{"first"})
	b.while(func() {
		for n := range 40 {
			put(n)
		}
	})
	f.sees(t, []string{"first", "39"})
	put("last")
	f.sees(t, []string{"first", "39", "last"})
	b.agree()
}

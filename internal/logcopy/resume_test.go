package logcopy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// interrupted is a log whose changes fail after some of them, and all later ones. It
// has the methods of the contract only.
type interrupted struct {
	mainstem.Log
	left  int
	after bool // the change that fails is made all the same
}

var errInterrupted = errors.New("killed")

func (l *interrupted) change(do func() error) error {
	if l.left--; l.left >= 0 {
		return do()
	}
	if l.after && l.left == -1 {
		_ = do()
	}
	return errInterrupted
}

func (l *interrupted) Commit(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
	if b.Len() == 0 && len(b.Ensures()) == 0 {
		return l.Log.Commit(ctx, b) // it only asks
	}
	err = l.change(func() error {
		r, err = l.Log.Commit(ctx, b)
		return err
	})
	return r, err
}

func (l *interrupted) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	return l.change(func() error { return l.Log.AlterSpace(ctx, name, p) })
}

func (l *interrupted) DropSpace(ctx context.Context, name string) error {
	return l.change(func() error { return l.Log.DropSpace(ctx, name) })
}

// TestInterruptedAnywhere ends a copy at every one of its changes, before and after
// the change is made, and goes on with it: the result is that of a copy in one piece.
// Then the source is edited, and the run that brings the copy up to date is treated
// likewise.
func TestInterruptedAnywhere(t *testing.T) {
	c := new(testkit.Clock)
	from := open(t, c)
	fillAll(t, from, c)
	first := dump(t, from, "", nil)
	for _, after := range []bool{false, true} {
		n := 0
		for ; ; n++ {
			to := open(t, c)
			if done := interruptAt(t, from, to, n, after, c); done {
				break
			}
			run(t, from, to, &logcopy.Options{Now: c.Now, BatchWrites: 1})
			same(t, dump(t, to, "", nil), first)
		}
		if n < 25 {
			t.Errorf("only %d changes were interrupted", n)
		}
	}
}

func TestInterruptedUpdate(t *testing.T) {
	c := new(testkit.Clock)
	from := open(t, c)
	fillAll(t, from, c)
	var copies []*pebblelog.Log
	for range 60 {
		to := open(t, c)
		run(t, from, to, &logcopy.Options{Now: c.Now})
		copies = append(copies, to)
	}
	editAll(t, from, c)
	want := dump(t, from, "", nil)
	for _, after := range []bool{false, true} {
		n := 0
		for ; ; n++ {
			to := copies[0]
			copies = copies[1:]
			if done := interruptAt(t, from, to, n, after, c); done {
				break
			}
			run(t, from, to, &logcopy.Options{Now: c.Now, BatchWrites: 1})
			same(t, undated(dump(t, to, "", nil)), undated(want))
			if r := run(t, from, to, &logcopy.Options{Now: c.Now}); r.Dropped != 0 || r.Spaces != 0 {
				t.Errorf("interrupted at change %d (%v): the second run after that drops %d spaces and creates %d", n, after, r.Dropped, r.Spaces)
			}
		}
		if n < 10 {
			t.Errorf("only %d changes were interrupted", n)
		}
	}
}

// interruptAt runs a copy whose n-th change fails; true if it ended before.
func interruptAt(t *testing.T, from, to mainstem.Log, n int, after bool, clock *testkit.Clock) bool {
	t.Helper()
	l := &interrupted{Log: to, left: n, after: after}
	c, err := logcopy.New(from, l, &logcopy.Options{Now: clock.Now, BatchWrites: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(context.Background())
	if err == nil {
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if !errors.Is(err, errInterrupted) {
		t.Fatalf("interrupted at change %d: %v", n, err)
	}
	return false
}

// late is a log that does not answer some commits, and makes them when they are tried again,
// just before that.
type late struct {
	mainstem.Log
	commits int
	held    *mainstem.Batch
}

func (l *late) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if b.Len() == 0 {
		return l.Log.Commit(ctx, b)
	}
	if l.held != nil {
		if _, err := l.Log.Commit(ctx, l.held); err != nil {
			return mainstem.Receipt{}, err
		}
		l.held = nil
	} else if l.commits++; l.commits%4 == 0 {
		l.held = b
		return mainstem.Receipt{}, mainstem.Errorf(mainstem.KindUnavailable, "commit", "no answer").WithOutcome(mainstem.Unknown)
	}
	return l.Log.Commit(ctx, b)
}

// A batch with an unknown outcome that arrives after it was looked for is found when it is
// tried again: no other copy is running.
func TestUnknownOutcomeThatArrivesLate(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	fillAll(t, from, c)
	l := &late{Log: to}
	run(t, from, l, &logcopy.Options{Now: c.Now})
	if l.commits < 8 {
		t.Errorf("only %d commits", l.commits)
	}
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))
}

// editAll changes what fillAll has written, in every way.
func editAll(t failer, log *pebblelog.Log, c *testkit.Clock) {
	c.Advance(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Rewrite("all", []byte("\x00\xff"), 7, []byte("other"), nil)
		b.Put("all", []byte("new"), []byte("x"))
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "one", Key: []byte("lives")})
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "all", Key: []byte("b"), Version: 3})
		b.Truncate("all", []byte("a"), 3)
		b.Put("quiet", []byte("q"), []byte("4"))
		b.Put("three", []byte("k"), []byte("5"))
	})
	if err := log.DropSpace(context.Background(), "sized"); err != nil {
		t.Fatalf("drop: %v", err)
	}
	if err := log.AlterSpace(context.Background(), "one", mainstem.Policy{History: 1, TombstoneAge: 2 * time.Hour}); err != nil {
		t.Fatalf("alter: %v", err)
	}
	c.Advance(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Ensure("sized", mainstem.Policy{MaxBytes: 2 << 20})
		b.Put("sized", []byte("anew"), []byte("y"))
		b.Put("one", []byte("lives"), []byte("again"))
	})
}

// undated leaves out when spaces were created.
func undated(lines []string) []string {
	for i := range lines {
		lines[i] = created.ReplaceAllString(lines[i], "")
	}
	return lines
}

func refused(t *testing.T, from, to mainstem.Log, kind mainstem.Kind, text string, o *logcopy.Options) {
	t.Helper()
	c, err := logcopy.New(from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context())
	if mainstem.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), text) {
		t.Fatalf("got %v, want %v with %q", err, kind, text)
	}
}

func TestRefusals(t *testing.T) {
	c := new(testkit.Clock)
	from, other := open(t, c), open(t, c)
	fillAll(t, from, c)
	fillAll(t, other, c)
	o := &logcopy.Options{Now: c.Now}
	refused(t, from, other, mainstem.KindExists, "holds data already", o)

	half := open(t, c)
	if interruptAt(t, from, half, 20, false, c) {
		t.Fatal("it was not interrupted")
	}
	refused(t, other, half, mainstem.KindExists, "a copy of another log", o)
	refused(t, plain{other}, half, mainstem.KindExists, "a copy of another log", o)
	refused(t, from, half, mainstem.KindExists, "the prefix", &logcopy.Options{Now: c.Now, Prefix: "a"})
	run(t, plain{from}, half, o) // the same log without its ID

	commit(t, half, func(b *mainstem.Batch) { b.Put("all", []byte("mine"), nil) })
	refused(t, from, half, mainstem.KindExists, "others have written", o)
}

func TestNotesOfACopyAreNotCopied(t *testing.T) {
	c := new(testkit.Clock)
	from, to, third := open(t, c), open(t, c), open(t, c)
	fillAll(t, from, c)
	run(t, from, to, &logcopy.Options{Now: c.Now})
	run(t, to, third, &logcopy.Options{Now: c.Now, Prefix: "o"})
	var names []string
	for in, err := range third.Spaces(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, in.Name)
	}
	if fmt.Sprint(names) != "[mainstem.copy one]" {
		t.Errorf("the spaces are %q", names)
	}
	same(t, dump(t, third, "", nil), dump(t, to, "one", nil))
}

// plain is a log that offers nothing but the contract.
type plain struct{ mainstem.Log }

package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// patient is a log that is about to be harmed.
type patient struct {
	w  *crashtest.Workload
	d  mainstem.Durability
	im crashtest.Image

	killed bool
	tail   string // the newest segment of the journal, if the log was killed
}

// newPatient runs a workload and stops the log, cleanly or not.
func newPatient(t *testing.T, d mainstem.Durability, killed bool) *patient {
	t.Helper()
	shape := crashtest.Shape{Seed: 3, Steps: 88, Durability: d, Small: true}
	p := &patient{w: generate(t, shape), d: d, killed: killed}
	fs := vfs.NewCrashableMem()
	c := new(crashtest.Clock)
	l, err := pebblelog.Open(dir, options(fs, c, d))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= len(p.w.Steps); n++ {
		if err := p.w.Do(context.Background(), l, c, n); err != nil {
			t.Fatal(err)
		}
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !killed {
		after = fs
	}
	if p.im, err = crashtest.ReadImage(after, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range p.im.Paths() {
		if strings.Contains(name, "/backup-") { // only the file system's memory of it: see CrashClone
			delete(p.im, name)
		}
		if killed && path.Dir(name) == dir+"/journal" && strings.HasSuffix(name, ".journal") {
			p.tail = name // the paths are sorted
		}
	}
	return p
}

// TestDamage harms every file of a log, one at a time. Opening, checking and reading
// everything must then end in an error that says Corrupt, or everything is there.
// Some losses cannot be told from a crash: the end of the newest segment of the journal
// of a process that was killed, see judgeTail. And a damaged record of the manifest is
// taken for its end.
func TestDamage(t *testing.T) {
	for _, test := range []struct {
		name   string
		d      mainstem.Durability
		killed bool
	}{
		{"closed", mainstem.Fsync, false},
		{"killed", mainstem.Fsync, true},
		{"killed relaxed", mainstem.OS, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, test.d, test.killed)
			if got := p.outcome(p.im); !got.intact() {
				t.Fatalf("unharmed: %+v", got)
			}
			for _, name := range p.im.Paths() {
				p.harm(t, name)
			}
		})
	}
}

// harm tries every damage on one file, until a few were treated wrongly.
func (p *patient) harm(t *testing.T, name string) {
	stride := 1
	if n := len(p.im[name]); !*long && n > 256 {
		stride = n/48 + 1
	}
	chosen := sample(t)
	tried, found, wrong := 0, 0, 0
	for i, d := range crashtest.Damages(name, len(p.im[name]), stride) {
		if !chosen(i) {
			continue
		}
		var got outcome
		err := crashtest.Within(d.String(), func() error {
			got = p.outcome(p.im.Apply(d))
			return nil
		})
		if err == nil {
			err = p.judge(name, d, got)
		}
		if err != nil {
			t.Errorf("%s: %v", d, err)
			if wrong++; wrong == 3 {
				return
			}
		}
		tried++
		if got.err != nil {
			found++
		}
	}
	t.Logf("%-30s %6d bytes: harmed in %4d ways, found %4d times", strings.TrimPrefix(name, dir+"/"), len(p.im[name]), tried, found)
}

// outcome is what became of opening, checking and reading a harmed log.
type outcome struct {
	err   error // of opening or reading
	check error // of the check
	steps int   // if all can be read: the log is as after so many steps; -1: after none
	all   int
}

func (o outcome) intact() bool { return o.err == nil && o.steps == o.all }

func (p *patient) outcome(im crashtest.Image) (o outcome) {
	o.all = len(p.w.Steps)
	defer func() {
		if r := recover(); r != nil {
			o.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	fs, err := im.FS()
	if err != nil {
		return outcome{err: err}
	}
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), p.d))
	if err != nil {
		o.err = err
		return o
	}
	defer l.Close()
	ctx := context.Background()
	o.check = crashtest.Check(ctx, l)
	got, err := crashtest.Take(ctx, l)
	if err != nil {
		o.err = err
		return o
	}
	for o.steps = o.all; o.steps >= 0 && !got.Equal(p.w.States[o.steps]); {
		o.steps--
	}
	return o
}

// judge returns an error if the outcome is not allowed.
func (p *patient) judge(name string, d crashtest.Damage, o outcome) error {
	var e *mainstem.Error
	switch {
	case o.intact():
		return nil
	case o.err == nil && name == p.tail:
		return p.judgeTail(d, o)
	case o.err == nil && strings.HasPrefix(path.Base(name), "MANIFEST-"):
		return nil // Pebble takes a damaged record for the end: the files of before may still be there
	case o.err == nil:
		return fmt.Errorf("nobody noticed: the log is as after step %d of %d; check: %v", o.steps, o.all, o.check)
	case !errors.As(o.err, &e):
		return fmt.Errorf("not an error of the contract: %w", o.err)
	case e.Kind != mainstem.KindCorrupt:
		return fmt.Errorf("not an error of kind corrupt: %w", o.err)
	case !names(o.err.Error(), name):
		return fmt.Errorf("the error does not name the file: %w", o.err)
	}
	return nil
}

// judgeTail bounds what damage to the newest segment of a killed process may
// take away silently: steps from the end, never one from the middle. A flipped bit
// takes the newest record only, unless syncs were left out: then a power cut could
// have done the same to any of them.
func (p *patient) judgeTail(d crashtest.Damage, o outcome) error {
	if o.steps < 0 {
		return fmt.Errorf("the log is as after no step; check: %v", o.check)
	}
	last := o.all
	for last > 0 && p.w.States[last-1].Equal(p.w.States[o.all]) {
		last-- // steps that left no trace
	}
	if d.Flips && p.d == mainstem.Fsync && o.steps < last-1 {
		return fmt.Errorf("the log is as after step %d of %d", o.steps, o.all)
	}
	return nil
}

// names reports whether an error names the file called name, by name or number. Damage to
// what Pebble keeps its settings and its list of files in may show elsewhere.
func names(text, name string) bool {
	base := path.Base(name)
	switch number, kind, _ := strings.Cut(base, "."); {
	case kind == "sst":
		return strings.Contains(text, number)
	case path.Dir(name) == dir:
		return strings.Contains(text, base)
	}
	return true
}

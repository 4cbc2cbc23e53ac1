package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// fakeTarget takes rows by their field n. Some can never be written, and some
// attempts fail in ways that may succeed later.
type fakeTarget struct {
	refuse  map[string]bool
	fail    []error // of the next attempts
	lost    bool    // attempts that fail are written all the same
	seen    map[string]bool
	written []string
	largest int
}

func (f *fakeTarget) Prepare(row rows.Row) (string, int, error) {
	n, ok := row.Fields["n"].(rows.Number)
	if !ok {
		return "", 0, errors.New("no n")
	}
	return n.String(), len(row.Text), nil
}

func (f *fakeTarget) Commit(_ context.Context, id string, items []string) (int, error) {
	f.largest = max(f.largest, len(items))
	for _, n := range items {
		if f.refuse[n] {
			return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Outcome: mainstem.NotWritten, Err: errors.New("never")}
		}
	}
	var err error
	if len(f.fail) > 0 {
		err, f.fail = f.fail[0], f.fail[1:]
	}
	if (err == nil || f.lost) && !f.seen[id] {
		f.seen[id] = true
		f.written = append(f.written, items...)
	}
	return len(items), err
}

func runFake(t testing.TB, f *fakeTarget, o Options, input string) (*importer[string], string, error) {
	t.Helper()
	f.seen = map[string]bool{}
	var errs testkit.Lines
	m := &cli.Main{Stderr: &errs}
	in, err := rows.NewReader(strings.NewReader(input), rows.Options{Format: rows.JSONL, FromLine: o.fromLine})
	if err != nil {
		t.Fatal(err)
	}
	im := &importer[string]{target: f, options: o, report: NewReport(m, 0, true), resume: max(o.fromLine, 1)}
	err = im.run(t.Context(), in)
	return im, errs.String(), err
}

// TestImportKeepsEveryGoodLineInOrder: whatever is bad, and however batches are
// cut, the good lines are written once, in their order, and the bad ones named.
func TestImportKeepsEveryGoodLineInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := &fakeTarget{refuse: map[string]bool{}}
		var input strings.Builder
		var want []string
		var bad []int64
		n := rapid.IntRange(0, 40).Draw(rt, "lines")
		for i := 1; i <= n; i++ {
			switch rapid.IntRange(0, 5).Draw(rt, "line") {
			case 0:
				fmt.Fprintln(&input, "not JSON")
				bad = append(bad, int64(i))
			case 1:
				fmt.Fprintln(&input, `{"x":1}`)
				bad = append(bad, int64(i))
			case 2:
				fmt.Fprintf(&input, "{\"n\":%d}\n", i)
				f.refuse[fmt.Sprint(i)] = true
				bad = append(bad, int64(i))
			default:
				fmt.Fprintf(&input, "{\"n\":%d}\n", i)
				want = append(want, fmt.Sprint(i))
			}
		}
		batch := rapid.IntRange(1, 10).Draw(rt, "batch")
		im, errs, err := runFake(t, f, Options{batch: batch}, input.String())
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(f.written, want) {
			rt.Errorf("written %v, want %v", f.written, want)
		}
		if f.largest > batch {
			rt.Errorf("a batch of %d lines, the limit is %d", f.largest, batch)
		}
		if im.report.Bad != int64(len(bad)) || im.report.Written != int64(len(want)) || im.resume != int64(n)+1 {
			rt.Errorf("counted %d bad, %d written, next line %d; want %d, %d, %d", im.report.Bad, im.report.Written, im.resume, len(bad), len(want), n+1)
		}
		for _, line := range bad {
			if !strings.Contains("\n"+errs, fmt.Sprintf("\nline %d: ", line)) {
				rt.Errorf("line %d is not reported in %q", line, errs)
			}
		}
	})
}

func TestImportTriesAgainWithoutWritingTwice(t *testing.T) {
	lost := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
	f := &fakeTarget{fail: []error{lost, lost}, lost: true}
	im, _, err := runFake(t, f, Options{batch: 2}, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	if err != nil || !slices.Equal(f.written, []string{"1", "2", "3"}) || im.report.Written != 3 {
		t.Errorf("written %v, %v", f.written, err)
	}
}

func TestImportGivesUpWhereItIs(t *testing.T) {
	full := &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "commit", Outcome: mainstem.NotWritten}
	f := &fakeTarget{fail: []error{nil, full}}
	im, _, err := runFake(t, f, Options{batch: 2}, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n")
	if !errors.Is(err, mainstem.ErrCorrupt) || im.resume != 3 || !slices.Equal(f.written, []string{"1", "2"}) {
		t.Errorf("next line %d, written %v, %v", im.resume, f.written, err)
	}
}

// TestImportKeepsThatAnOutcomeIsUnknown: attempts that certainly write nothing say nothing about
// the one before them.
func TestImportKeepsThatAnOutcomeIsUnknown(t *testing.T) {
	lost := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
	refused := lost.WithOutcome(mainstem.NotWritten)
	const look = "lines from it on may be written already"
	for name, c := range map[string]struct {
		fail    []error
		unknown bool
	}{
		"lost, then refused":       {[]error{lost, refused, refused, refused, refused}, true},
		"lost, then another error": {[]error{lost, errors.New("the cable is out")}, true},
		"lost, then blamed":        {[]error{lost, mainstem.Refusef(mainstem.KindInvalid, "commit", "never"), io.ErrUnexpectedEOF}, false},
		"refused":                  {[]error{refused, refused, refused, refused, refused}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				im, _, err := runFake(t, &fakeTarget{fail: c.fail}, Options{batch: 2}, "{\"n\":1}\n{\"n\":2}\n")
				if err == nil || errors.Is(err, mainstem.ErrUnknownOutcome) != c.unknown {
					t.Errorf("%v: unknown is %t, want %t", err, !c.unknown, c.unknown)
				}
				for _, file := range []string{"", "a.csv"} {
					stopped := &StoppedError{File: file, Next: im.resume, Err: err}
					if strings.Contains(stopped.Error(), look) != c.unknown {
						t.Errorf("%v: tells to look: %t, want %t", stopped, !c.unknown, c.unknown)
					}
				}
			})
		})
	}
}

// TestLargeLinesMakeSmallBatches: memory is bounded by bytes, not by lines.
func TestLargeLinesMakeSmallBatches(t *testing.T) {
	var input strings.Builder
	for i := range 8 {
		fmt.Fprintf(&input, "{\"n\":%d,\"pad\":%q}\n", i, strings.Repeat("x", batchBytes/2))
	}
	f := &fakeTarget{}
	if _, _, err := runFake(t, f, Options{batch: 1000}, input.String()); err != nil || f.largest > 2 || len(f.written) != 8 {
		t.Errorf("%d lines, at most %d at once, %v", len(f.written), f.largest, err)
	}
}

package cli

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMeterText(t *testing.T) {
	for _, c := range []struct {
		done, size, lines int64
		took              time.Duration
		want              string
	}{
		{0, 0, 0, 3 * time.Second, "checking  3s"},
		{0, 1000, 0, 0, "checking  ░░░░░░░░░░░░░░░░░░░░    0%  0s"},
		{1 << 20, 4 << 20, 5000, 2 * time.Second, "checking  █████░░░░░░░░░░░░░░░   25%  5000 lines  2500/s  512 KiB/s  6s left"},
		{4 << 20, 4 << 20, 20000, 8 * time.Second, "checking  ████████████████████  100%  20000 lines  2500/s  512 KiB/s  0s left"},
		{9 << 20, 4 << 20, 1, time.Second, "checking  ████████████████████  100%  1 lines  1/s  9 MiB/s  0s left"}, // a file that grew
		{3 << 30, 0, 7, time.Second, "checking  7 lines  7/s  3 GiB/s  1s"},
	} {
		if got := meterText("checking", c.done, c.size, c.lines, c.took); got != c.want {
			t.Errorf("%+v: got %q, want %q", c, got, c.want)
		}
	}
}

// TestMeterLeavesNothingBehind: what is printed above it stands on lines of its
// own, and the last thing drawn is blank.
func TestMeterLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Lines
		m := &Main{Stderr: &out, Terminal: true}
		p := m.StartMeter("checking", 0)
		time.Sleep(5*meterEvery + 1)
		p.Above(func() { fmt.Fprintln(m.Stderr, "line 7: interrupted") })
		time.Sleep(meterEvery)
		p.Finish()
		const want = "\rchecking  0s\rchecking  0s\rchecking  0s\rchecking  1s\rchecking  1s\rchecking  1s" +
			"\r            \rline 7: interrupted\n\rchecking  1s\r            \r"
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestNoMeterBesideJSON(t *testing.T) {
	m := &Main{Stderr: new(testkit.Lines), Terminal: true, Flags: Flags{JSON: true}}
	if m.StartMeter("checking", 0) != nil {
		t.Error("there is one")
	}
}

func TestMeterSaysAnotherText(t *testing.T) {
	var out testkit.Lines
	p := &Meter{out: &out, begin: time.Now()}
	p.Say("comparing")
	p.draw()
	if got := out.String(); !strings.Contains(got, "comparing") {
		t.Errorf("%q", got)
	}
	p = nil
	p.Say("nobody watches")
}

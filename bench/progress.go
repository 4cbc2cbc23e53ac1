package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// progress shows how a run goes: on a terminal as one line that is drawn over
// itself, with the time that is left; everywhere as one line for each case.
type progress struct {
	p     *program
	begin time.Time
	stop  chan struct{}
	ended chan struct{}

	mu struct {
		sync.Mutex
		step   string
		steady stretch
		drawn  int // characters on the line
	}
}

const (
	progressEvery = 200 * time.Millisecond
	progressBar   = 24
	progressWidth = 110
)

func newProgress(p *program) *progress {
	g := &progress{p: p, begin: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if !p.terminal {
		close(g.ended)
		return g
	}
	go func() {
		defer close(g.ended)
		for tick := time.NewTicker(progressEvery); ; {
			select {
			case <-tick.C:
				g.draw()
			case <-g.stop:
				tick.Stop()
				return
			}
		}
	}()
	return g
}

// close takes the line away.
func (g *progress) close() {
	close(g.stop)
	<-g.ended
	g.mu.Lock()
	defer g.mu.Unlock()
	g.eraseLocked()
}

// Step notes what is being done.
func (g *progress) Step(entry, doing string, part, until float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.step = entry + "  " + doing
	g.mu.steady = stretch{part, until, time.Since(g.begin)}
}

// stretch is a step between two parts of everything: a round of a scale test takes
// minutes, in which the display must not stand still.
type stretch struct {
	part, until float64
	began       time.Duration // since the beginning of everything
}

const (
	leastPart = 0.01 // of everything, from which the time that is left can be told
	mostOfIt  = 0.95 // of a step that is shown before it has ended
)

// at returns which part of everything is done at a time since the beginning, and the
// time that is left; known is false if it is too early to tell. It supposes that the
// step takes its share of the time as all before it did.
func (s stretch) at(now time.Duration) (part float64, left time.Duration, known bool) {
	part = min(max(s.part, 0), 1)
	if part < leastPart || s.began <= 0 {
		return part, 0, false
	}
	all := float64(s.began) / part
	within := max(float64(now-s.began)/all, 0)
	part = min(part+min(within, mostOfIt*max(s.until-s.part, 0)), 1)
	return part, max(time.Duration(float64(now)/part)-now, 0), true
}

// Finish says above the line what came out of a case.
func (g *progress) Finish(variant string, rows []*result.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.eraseLocked()
	line := rows[0].CaseName()
	if variant != "" {
		line += " (" + variant + ")"
	}
	line += fmt.Sprintf(": %d measured", len(stats.Ranked(rows)))
	for _, status := range []string{result.Skipped, result.Failed} {
		n := 0
		for _, r := range rows {
			if r.Status == status {
				n++
			}
		}
		if n > 0 {
			line += fmt.Sprintf(", %d %s", n, status)
		}
	}
	for _, v := range stats.Judge(rows) {
		line += fmt.Sprintf("; %s: %s%s", v.Durability, v.Outcome, report.Mark(v))
	}
	fmt.Fprintln(g.p.stderr, line)
}

func (g *progress) eraseLocked() {
	if g.mu.drawn > 0 {
		fmt.Fprintf(g.p.stderr, "\r%s\r", strings.Repeat(" ", g.mu.drawn))
		g.mu.drawn = 0
	}
}

func (g *progress) draw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Since(g.begin)
	part, rest, known := g.mu.steady.at(now)
	full := int(part * progressBar)
	left := "?"
	if known {
		left = rest.Round(time.Second).String()
	}
	line := []rune(fmt.Sprintf("[%s%s] %3.0f %%  %v, %s left  %s",
		strings.Repeat("█", full), strings.Repeat("·", progressBar-full), part*100, now.Round(time.Second), left, g.mu.step))
	line = line[:min(len(line), progressWidth)]
	g.eraseLocked()
	fmt.Fprint(g.p.stderr, string(line))
	g.mu.drawn = len(line)
}

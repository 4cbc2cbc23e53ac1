package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// progress shows how a race goes: on a terminal as one line that is drawn over
// itself, with the time that is left; everywhere as one line for each case.
type progress struct {
	p     *program
	begin time.Time
	stop  chan struct{}
	ended chan struct{}

	mu struct {
		sync.Mutex
		step  string
		part  float64 // of everything that is done
		drawn int     // characters on the line
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
func (g *progress) Step(entry, doing string, part float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.step, g.mu.part = entry+"  "+doing, part
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
		line += fmt.Sprintf("; %s: %s", v.Durability, v.Outcome)
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
	part := min(max(g.mu.part, 0), 1)
	full := int(part * progressBar)
	left := "?"
	if spent := time.Since(g.begin); part > 0.01 {
		left = (time.Duration(float64(spent)/part) - spent).Round(time.Second).String()
	}
	line := []rune(fmt.Sprintf("[%s%s] %3.0f %%  %s left  %s",
		strings.Repeat("█", full), strings.Repeat("·", progressBar-full), part*100, left, g.mu.step))
	line = line[:min(len(line), progressWidth)]
	g.eraseLocked()
	fmt.Fprint(g.p.stderr, string(line))
	g.mu.drawn = len(line)
}

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// meter shows a person on a terminal that something is going on: one line that
// is drawn over itself. A nil meter shows nothing. Its methods may be called from
// many goroutines.
type meter struct {
	out   io.Writer
	what  string
	size  int64 // bytes to do, 0 if nobody knows
	begin time.Time
	stop  chan struct{}
	ended chan struct{} // closed when the goroutine that draws has ended

	mu struct {
		sync.Mutex
		bytes int64
		lines int64
		drawn int // characters on the line
	}
}

const (
	meterEvery = 200 * time.Millisecond // between two drawings
	meterBar   = 20                     // characters of the bar
)

// startMeter begins to show what is being done, unless nobody watches.
func (m *Main) startMeter(what string, size int64) *meter {
	if !m.Terminal || m.flags.json {
		return nil
	}
	p := &meter{out: m.Stderr, what: what, size: size, begin: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	p.draw()
	go p.run()
	return p
}

func (p *meter) run() {
	defer close(p.ended)
	tick := time.NewTicker(meterEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.draw()
		case <-p.stop:
			return
		}
	}
}

// finish takes the line away.
func (p *meter) finish() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.ended
	p.above(func() {})
}

// above lets write print whole lines above the meter's own.
func (p *meter) above(write func()) {
	if p == nil {
		write()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.mu.drawn))
	p.mu.drawn = 0
	write()
}

// Write counts the bytes that are done.
func (p *meter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.bytes += int64(len(b))
	return len(b), nil
}

// lines says how many lines are done.
func (p *meter) lines(n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lines = n
}

func (p *meter) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := meterText(p.what, p.mu.bytes, p.size, p.mu.lines, time.Since(p.begin))
	n := len([]rune(text))
	fmt.Fprintf(p.out, "\r%s%s", text, strings.Repeat(" ", max(0, p.mu.drawn-n)))
	p.mu.drawn = n
}

// meterText is what a meter shows when done bytes of size, and lines, took a while.
func meterText(what string, done, size, lines int64, took time.Duration) string {
	parts := []string{what}
	if size > 0 {
		share := min(float64(done)/float64(size), 1)
		full := int(share * meterBar)
		parts = append(parts, strings.Repeat("█", full)+strings.Repeat("░", meterBar-full), fmt.Sprintf("%3.0f%%", 100*share))
	}
	if lines > 0 {
		parts = append(parts, fmt.Sprintf("%d lines", lines), fmt.Sprintf("%.0f/s", float64(lines)/took.Seconds()))
	}
	if done > 0 {
		parts = append(parts, sizeText(float64(done)/took.Seconds())+"/s")
	}
	if size > 0 && done > 0 {
		left := time.Duration(float64(took) * float64(max(size-done, 0)) / float64(done))
		parts = append(parts, left.Round(time.Second).String()+" left")
	} else {
		parts = append(parts, took.Round(time.Second).String())
	}
	return strings.Join(parts, "  ")
}

// sizeText writes a number of bytes in three digits or so.
func sizeText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// sizeOf returns the bytes of a stream that is a file, 0 if nobody knows how many
// there are.
func sizeOf(stream any) int64 {
	if f, ok := stream.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

// isTerminal reports whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

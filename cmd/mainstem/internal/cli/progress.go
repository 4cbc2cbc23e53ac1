package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Meter shows a person on a terminal that something is going on: one line that
// is drawn over itself. A nil meter shows nothing. Its methods may be called from
// many goroutines.
type Meter struct {
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

// StartMeter begins to show what is being done to size bytes, 0 if nobody knows how many. It
// returns nil if no person watches. The caller calls Finish.
func (m *Main) StartMeter(what string, size int64) *Meter {
	if !m.Terminal || m.Flags.JSON {
		return nil
	}
	p := &Meter{out: m.Stderr, what: what, size: size, begin: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	p.draw()
	go p.run()
	return p
}

func (p *Meter) run() {
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

// Finish takes the line away. It is called once.
func (p *Meter) Finish() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.ended
	p.Above(func() {})
}

// Above lets write print whole lines above the meter's own.
func (p *Meter) Above(write func()) {
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

// Write counts the bytes that are done. It never fails; the meter must not be nil.
func (p *Meter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.bytes += int64(len(b))
	return len(b), nil
}

// Lines says how many lines are done.
func (p *Meter) Lines(n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lines = n
}

// Say shows another text beside the time that has passed.
func (p *Meter) Say(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = text
}

func (p *Meter) draw() {
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
		parts = append(parts, Bar(share), fmt.Sprintf("%3.0f%%", 100*share))
	}
	if lines > 0 {
		parts = append(parts, fmt.Sprintf("%d lines", lines), fmt.Sprintf("%.0f/s", float64(lines)/took.Seconds()))
	}
	if done > 0 {
		parts = append(parts, SizeText(float64(done)/took.Seconds())+"/s")
	}
	if size > 0 && done > 0 {
		left := time.Duration(float64(took) * float64(max(size-done, 0)) / float64(done))
		parts = append(parts, left.Round(time.Second).String()+" left")
	} else {
		parts = append(parts, took.Round(time.Second).String())
	}
	return strings.Join(parts, "  ")
}

// Bar draws how much is done, a share from 0 to 1.
func Bar(share float64) string {
	full := int(share * meterBar)
	return strings.Repeat("█", full) + strings.Repeat("░", meterBar-full)
}

// SizeText writes a number of bytes in three digits or so.
func SizeText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// IsTerminal reports whether a person is at the other end of a stream.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

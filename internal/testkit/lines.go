package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Lines are the lines that were logged, as text: give [Lines.Logger] to what logs.
// The zero value is ready to use, by several goroutines at once.
type Lines struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

// Logger returns a logger that adds lines at the level Info and above.
func (l *Lines) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer. It never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.Write(p)
}

// String returns all lines.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.String()
}

// Count returns how often text occurs in the lines.
func (l *Lines) Count(text string) int { return strings.Count(l.String(), text) }

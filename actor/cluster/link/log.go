package link

import (
	"log/slog"
	"sync"
	"time"
)

const (
	logEvery = 10 * time.Second // between two lines with the same key
	logKinds = 256              // keys that are remembered, and lines in logEvery
)

// limitedLog logs failures that peers or strangers can cause as often as they like. It writes at most
// one line with the same message about the same node or host per logEvery, with the number of lines
// skipped, and at most logKinds lines per logEvery in all. Many goroutines may use it.
type limitedLog struct {
	log  *slog.Logger
	mu   sync.Mutex // guards the fields below
	seen map[logKey]*logged
	from time.Time // when the present interval of logEvery began
	n    int       // lines since from
}

type logKey struct{ message, about string }

type logged struct {
	next    time.Time // no line before
	skipped int       // lines since the last one
}

// warn logs a message that is about no node or host.
func (l *limitedLog) warn(message string, args ...any) { l.warnOf("", message, args...) }

// warnOf logs a message about a node or a host.
func (l *limitedLog) warnOf(about, message string, args ...any) {
	if skipped, ok := l.due(logKey{message, about}); ok {
		l.log.Warn(message, append(args, "skipped", skipped)...)
	}
}

// due reports whether a line may be logged, and how many of its key were skipped since the last.
func (l *limitedLog) due(k logKey) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if e := l.seen[k]; e != nil {
		if now.Before(e.next) {
			e.skipped++
			return 0, false
		}
		skipped = e.skipped
	}
	if now.Sub(l.from) >= logEvery {
		l.from, l.n = now, 0
	}
	if l.n++; l.n > logKinds {
		return 0, false // strangers may have many addresses
	}
	if len(l.seen) >= logKinds {
		clear(l.seen)
	}
	if l.seen == nil {
		l.seen = make(map[logKey]*logged)
	}
	l.seen[k] = &logged{next: now.Add(logEvery)}
	return skipped, true
}

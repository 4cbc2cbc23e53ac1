package link

import (
	"log/slog"
	"sync"
	"time"
)

const (
	logEvery = 10 * time.Second // how often the same may be logged
	logKinds = 256              // how many different things are remembered, and logged in that time
)

// limitedLog logs what peers, or strangers, can cause as often as they like: each
// message about one of them once in a while, with how often it was left out.
type limitedLog struct {
	log  *slog.Logger
	mu   sync.Mutex // guards the fields below
	seen map[logKey]*logged
	from time.Time // since when lines are counted
	n    int
}

type logKey struct{ message, about string }

type logged struct {
	next    time.Time
	skipped int
}

func (l *limitedLog) warn(message string, args ...any) { l.warnOf("", message, args...) }

// warnOf logs a message about somebody.
func (l *limitedLog) warnOf(about, message string, args ...any) {
	if skipped, ok := l.due(logKey{message, about}); ok {
		l.log.Warn(message, append(args, "skipped", skipped)...)
	}
}

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
		return 0, false // strangers come from everywhere
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

package natslog

import "testing"

// What the state sees of the place that a frame is to have says what became of the frame. A
// frame of several messages is decided with its last one.
func TestFateOfAFrame(t *testing.T) {
	const mine, other = 1, 2
	at := func(seq uint64, nonce uint64, part, parts uint32) func(l *Log) {
		return func(l *Log) {
			_ = l.takeLocked(piece{frame: frame{nonce: nonce}, part: part, parts: parts}, seq)
		}
	}
	for what, c := range map[string]struct {
		seen []func(l *Log)
		want fate
	}{
		"nothing came":                   {nil, undecided},
		"it came":                        {[]func(l *Log){at(11, mine, 0, 1), at(20, other, 0, 1)}, ours},
		"it came in two messages":        {[]func(l *Log){at(11, mine, 0, 2), at(12, mine, 1, 2)}, ours},
		"one of two came":                {[]func(l *Log){at(11, mine, 0, 2)}, undecided},
		"one of two came, then another":  {[]func(l *Log){at(11, mine, 0, 2), at(12, other, 0, 1)}, others},
		"one of two came, one had left":  {[]func(l *Log){at(11, mine, 0, 2), at(13, other, 0, 1)}, lost},
		"another came":                   {[]func(l *Log){at(11, other, 0, 1), at(20, other, 0, 1)}, others},
		"the end of another came":        {[]func(l *Log){at(11, other, 1, 2)}, others},
		"one came after it had left":     {[]func(l *Log){at(12, other, 0, 1)}, lost},
		"its end came after it had left": {[]func(l *Log){at(12, mine, 1, 2)}, lost},
	} {
		l := &Log{replay: replay{st: newState()}}
		at(5, other, 0, 1)(l) // of a gap before nothing follows
		at(10, other, 0, 1)(l)
		l.claim = claim{seq: 11}
		for _, see := range c.seen {
			see(l)
		}
		if got := l.resolve(mine); got != c.want {
			t.Errorf("%s: the fate is %d, want %d", what, got, c.want)
		}
	}
}

package topiccmd

import (
	"testing"
)

func TestParseFrom(t *testing.T) {
	for _, in := range []string{"start", "end", "0", "17", "2026-01-31T08:00:00Z", "2026-01-31T08:00:00+02:00", "90m", "1h30m"} {
		if _, err := parseFrom(in, nil, 3); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"", "-1", "-1h", "begin", "2026-01-31", "99999999999999999999"} {
		if _, err := parseFrom(in, nil, 3); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}

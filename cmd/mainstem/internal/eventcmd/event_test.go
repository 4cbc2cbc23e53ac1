package eventcmd

import (
	"math"
	"testing"

	"github.com/mainstemdev/mainstem/event"
)

func TestParseExpected(t *testing.T) {
	for in, want := range map[string]event.Expected{
		"any": event.AnyVersion, "none": event.NoStream, "exists": event.StreamExists, "0": event.NoStream, "7": 7, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseExpected(in); err != nil || got != want {
			t.Errorf("parseExpected(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "some", "9223372036854775808", "1.5"} {
		if got, err := parseExpected(in); err == nil {
			t.Errorf("parseExpected(%q) = %v", in, got)
		}
	}
}

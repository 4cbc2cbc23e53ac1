package servertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Metrics returns what the server at the URL base answers on /metrics. It needs no token.
func Metrics(t testing.TB, base string) string {
	t.Helper()
	code, text := Get(t, nil, base+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	return text
}

// AwaitMetrics waits until each of the lines, or a line that begins so, is among the metrics
// of the server at the URL base: what counts a request does it after the answer, so its
// client may be quicker.
func AwaitMetrics(t testing.TB, base string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		testkit.Eventually(t, "/metrics has "+line, func() bool { return strings.Contains(Metrics(t, base), "\n"+line) })
	}
}

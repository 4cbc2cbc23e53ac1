package servertest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Metrics returns what the server at the URL base answers on /metrics. It needs no token.
func Metrics(t testing.TB, base string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v: %s", resp.StatusCode, err, b)
	}
	return string(b)
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

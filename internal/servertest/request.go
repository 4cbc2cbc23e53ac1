package servertest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Client keeps no connections, and follows no redirections.
var Client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Request sends a request and returns the status and the body of the answer. A header Host
// is the host that the request names.
func Request(t testing.TB, client *http.Client, method, url, body string, h http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if h != nil {
		r.Header = h.Clone()
	}
	if host := h.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// Get is [Request] with [Client] and the method GET.
func Get(t testing.TB, h http.Header, url string) (int, string) {
	t.Helper()
	return Request(t, Client, http.MethodGet, url, "", h)
}

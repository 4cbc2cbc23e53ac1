package omnirest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
)

// handlerDoer does requests without a network.
type handlerDoer struct{ h http.Handler }

func (d handlerDoer) Do(ctx context.Context, r *httpconn.Request) (*httpconn.Response, error) {
	target, err := httpconn.ParseTarget("http://x", nil)
	if err != nil {
		return nil, err
	}
	s := &httpconn.Standard{Client: &http.Client{Transport: d}, Target: target}
	return s.Do(ctx, r)
}

// RoundTrip implements http.RoundTripper.
func (d handlerDoer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	w.Body = new(bytes.Buffer)
	d.h.ServeHTTP(w, r)
	return w.Result(), nil
}

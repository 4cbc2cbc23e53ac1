package remotelog_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// refusing is a server that answers requests for sessions so, and serves RPC.
func refusing(t *testing.T, status int, contentType, body string) (url string) {
	t.Helper()
	path, h := rpc.NewHandler(model.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.HandleFunc(rpc.SessionPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	s := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(s.Config)
	s.Start()
	t.Cleanup(func() { _ = h.Close(); s.Close() })
	return s.URL
}

// TestRefusalOfASessionSaysWhatTheServerSaid: in the error of a Log that must have a session or is
// denied, and else in Info.
func TestRefusalOfASessionSaysWhatTheServerSaid(t *testing.T) {
	const host = "a server that asks for no token answers only to localhost"
	for _, c := range []struct {
		status            int
		contentType, body string
		kind              mainstem.Kind // of the error
		fallsBack         bool
		says              string
	}{
		{401, "text/plain; charset=utf-8", "the bearer token is missing or wrong\n", mainstem.KindDenied, false, "401 Unauthorized: the bearer token is missing or wrong"},
		{403, "text/plain; charset=utf-8", host + "\n", mainstem.KindDenied, false, "403 Forbidden: " + host},
		{403, "application/problem+json", `{"title":"Forbidden","detail":"not from\nhere\u0007"}`, mainstem.KindDenied, false, "403 Forbidden: not from here"},
		{403, "text/html", "<h1>no</h1>", mainstem.KindDenied, false, "403 Forbidden"},
		{404, "text/plain", "404 page not found", mainstem.KindUnsupported, true, "404 Not Found: 404 page not found"},
		{405, "application/json", `{"code":"unimplemented","message":"only POST"}`, mainstem.KindUnsupported, true, "405 Method Not Allowed: only POST"},
		{426, "text/plain", "want an upgrade", mainstem.KindUnsupported, true, "426 Upgrade Required: want an upgrade"},
		{500, "text/plain", "broken", mainstem.KindUnavailable, true, "500 Internal Server Error: broken"},
		{501, "", "", mainstem.KindUnsupported, true, "501 Not Implemented"},
		{502, "text/html", "<html>", mainstem.KindUnavailable, false, "502 Bad Gateway"},
		{503, "text/plain", "the server is stopping", mainstem.KindUnavailable, false, "503 Service Unavailable: the server is stopping"},
		{504, "application/json", "{", mainstem.KindUnavailable, false, "504 Gateway Timeout"},
		{400, "text/plain", strings.Repeat("long ", 4000), mainstem.KindUnsupported, true, strings.Repeat("long ", 59)},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.contentType), func(t *testing.T) {
			url := refusing(t, c.status, c.contentType, c.body)
			_, err := open(t, url, &remotelog.Options{Transport: remotelog.Sessions, Retries: -1}).Commit(t.Context(), put("", "k", "v"))
			e := wantError(t, err, c.kind, mainstem.NotWritten)
			if !strings.Contains(e.Err.Error(), c.says) || len(e.Err.Error()) > 400 || strings.Contains(e.Err.Error(), "<h") {
				t.Errorf("the error is %q, want %q in it", e.Err, c.says)
			}
			info, err := open(t, url, &remotelog.Options{Retries: -1}).Info(t.Context())
			if !c.fallsBack {
				e := wantError(t, err, c.kind, mainstem.NoOutcome)
				if !strings.Contains(e.Err.Error(), c.says) {
					t.Errorf("the error is %q, want %q in it", e.Err, c.says)
				}
				return
			}
			if err != nil || info.Transport != remotelog.RPC || info.HTTP != "HTTP/2.0" || !strings.Contains(info.Fallback, c.says) {
				t.Errorf("%+v, %v; want %q", info, err, c.says)
			}
		})
	}
}

// TestRefusalOfRPCSaysWhatTheServerSaid: also where the answer is not one of the protocol. What HTTP
// refuses was not written, so that nobody tries it without end.
func TestRefusalOfRPCSaysWhatTheServerSaid(t *testing.T) {
	for status, c := range map[int]struct {
		kind    mainstem.Kind
		outcome mainstem.Outcome
	}{
		http.StatusBadRequest:            {mainstem.KindUnsupported, mainstem.NotWritten},
		http.StatusForbidden:             {mainstem.KindDenied, mainstem.NotWritten},
		http.StatusNotFound:              {mainstem.KindUnsupported, mainstem.NotWritten},
		http.StatusMethodNotAllowed:      {mainstem.KindUnsupported, mainstem.NotWritten},
		http.StatusRequestEntityTooLarge: {mainstem.KindInvalid, mainstem.NotWritten},
		http.StatusBadGateway:            {mainstem.KindUnavailable, mainstem.Unknown},
		http.StatusRequestTimeout:        {mainstem.KindUnavailable, mainstem.Unknown},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "not like this", status)
		}))
		log := open(t, s.URL, &remotelog.Options{HTTP1: true, Retries: -1})
		_, err := log.Commit(t.Context(), put("", "k", "v"))
		wantError(t, err, c.kind, c.outcome)
		errs := map[string]error{"commit": err, "feed": last(log.Feed(t.Context(), mainstem.Filter{}))}
		for name, err := range errs {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d %s: not like this", status, http.StatusText(status))) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_ = log.Close()
		s.Close()
	}
}

// http1Proxy is a proxy in front of a server that speaks HTTP/1.1 and passes no upgrades.
func http1Proxy(t *testing.T, server string) *httptest.Server {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	connections := new(http.Transport)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     connections,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Upgrade")
		r.Header.Del("Connection")
		forward.ServeHTTP(w, r)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	t.Cleanup(func() { s.Close(); connections.CloseIdleConnections() })
	return s
}

// TestFallsBackToWhatAProxySpeaks: behind a proxy that speaks only HTTP/1.1 and passes no upgrades,
// everything works, followers too, and Info says how.
func TestFallsBackToWhatAProxySpeaks(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			p := http1Proxy(t, serve(t, model.New(nil), nil).URL)
			var trust *tls.Config
			if secure {
				p.StartTLS()
				trust = &tls.Config{RootCAs: x509.NewCertPool()}
				trust.RootCAs.AddCert(p.Certificate())
			} else {
				p.Start()
			}
			log := open(t, p.URL, &remotelog.Options{TLS: trust})
			large := strings.Repeat("x", 1<<20)
			if _, err := log.Commit(t.Context(), put("", "k", large)); err != nil {
				t.Fatal(err)
			}
			if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != large {
				t.Errorf("got %d bytes, %v", len(r.Value), err)
			}
			feed, _ := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true, Limit: 2}))
			<-feed
			if _, err := log.Commit(t.Context(), put("", "k", "later")); err != nil { // the follower waits
				t.Fatal(err)
			}
			if r := <-feed; string(r.Value) != "later" {
				t.Errorf("the follower got %q", r.Value)
			}
			if secure {
				head(t, open(t, p.URL, &remotelog.Options{TLS: trust, Transport: remotelog.RPC})) // the handshake says how
			}
			info, err := log.Info(t.Context())
			if err != nil || info.Transport != remotelog.RPC || info.HTTP != "HTTP/1.1" || !strings.Contains(info.Fallback, "426 Upgrade Required") {
				t.Errorf("%+v, %v", info, err)
			}
		})
	}
}

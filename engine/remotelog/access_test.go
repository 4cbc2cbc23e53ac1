package remotelog_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// serveTLS serves log with TLS and a token.
func serveTLS(t *testing.T, log mainstem.Log, token string) (url string, trust *tls.Config, http2 func() int64) {
	t.Helper()
	path, h := rpc.NewHandler(log, &rpc.Options{Token: token})
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	var overHTTP2 atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && r.TLS != nil {
			overHTTP2.Add(1)
		}
		mux.ServeHTTP(w, r)
	}))
	rpc.ConfigureServer(s.Config)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { _ = h.Close(); s.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.URL, &tls.Config{RootCAs: roots}, overHTTP2.Load
}

func TestTLSWithToken(t *testing.T) {
	url, trust, http2 := serveTLS(t, model.New(nil), "secret")
	log := open(t, url, &remotelog.Options{TLS: trust, Token: "secret", Transport: remotelog.RPC})
	if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
		t.Fatal(err)
	}
	if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "v" {
		t.Errorf("got %q, %v", r.Value, err)
	}
	if http2() != 2 {
		t.Errorf("%d of 2 calls came over HTTP/2 with TLS", http2())
	}
}

// A session is asked for over HTTP/1.1 alone, whatever the caller's TLS offers: a server or proxy
// that chooses by ALPN must not choose HTTP/2, which has no upgrades.
func TestSessionsOfferHTTP1ByALPN(t *testing.T) {
	_, h := rpc.NewHandler(model.New(nil), nil)
	s := httptest.NewUnstartedServer(h)
	rpc.ConfigureServer(s.Config)
	s.EnableHTTP2 = true
	offers := make(chan []string, 10)
	s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offers <- hello.SupportedProtos
		return nil, nil
	}}
	s.StartTLS()
	t.Cleanup(func() { _ = h.Close(); s.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, trust := range []*tls.Config{{RootCAs: roots}, {RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}}} {
		log := open(t, s.URL, &remotelog.Options{TLS: trust, Transport: remotelog.Sessions})
		if _, err := log.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-offers; !slices.Equal(got, []string{"http/1.1"}) {
			t.Errorf("%q was offered", got)
		}
	}
}

func TestWithoutTrustNothingIsWritten(t *testing.T) {
	url, _, _ := serveTLS(t, model.New(nil), "secret")
	_, err := open(t, url, &remotelog.Options{Token: "secret"}).Commit(t.Context(), put("", "k", "v"))
	wantError(t, err, mainstem.KindUnavailable, mainstem.NotWritten)
}

func TestWrongTokenIsDenied(t *testing.T) {
	behind := model.New(nil)
	s := serve(t, behind, &rpc.Options{Token: "secret"})
	for name, o := range map[string]remotelog.Options{
		"none": {}, "none rpc": {Transport: remotelog.RPC}, "wrong": {Token: "Secret"}, "longer": {Token: "secrets"},
		"wrong grpc": {Token: "x", Protocol: remotelog.GRPC}, "wrong grpc-web": {Token: "x", Protocol: remotelog.GRPCWeb},
	} {
		log := open(t, s.URL, &o)
		_, err := log.Commit(t.Context(), put("", "k", "v"))
		e := wantError(t, err, mainstem.KindDenied, mainstem.NotWritten)
		if strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: the error shows the token: %v", name, e)
		}
		_, err = log.Head(t.Context())
		wantError(t, err, mainstem.KindDenied, mainstem.NoOutcome)
		for _, err := range log.Feed(t.Context(), mainstem.Filter{Follow: true}) {
			wantError(t, err, mainstem.KindDenied, mainstem.NoOutcome)
		}
		wantError(t, log.Backup(t.Context(), nil), mainstem.KindDenied, mainstem.NoOutcome)
	}
	if head(t, behind) != 0 {
		t.Error("something was written without the token")
	}
	if _, err := open(t, s.URL, &remotelog.Options{Token: "secret"}).Head(t.Context()); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	for _, c := range []struct {
		url string
		o   remotelog.Options
		say string
	}{
		{"", remotelog.Options{}, "scheme"},
		{"127.0.0.1:8080", remotelog.Options{}, ""},
		{"ftp://host", remotelog.Options{}, `"ftp"`},
		{"http://", remotelog.Options{}, "no host"},
		{"http://:8080", remotelog.Options{}, "no host"},
		{"http://user:hunter2@host", remotelog.Options{}, "Options"},
		{"http://user:hunter2@ho st/%zz", remotelog.Options{}, ""},
		{"http://host?token=x", remotelog.Options{}, "query"},
		{"http://host", remotelog.Options{Protocol: 9}, "protocol 9"},
		{"http://host", remotelog.Options{Protocol: remotelog.GRPC, HTTP1: true}, "HTTP/2"},
		{"https://host", remotelog.Options{Token: "a b"}, "token"},
		{"http://host", remotelog.Options{Token: "secret"}, "clear text"},
	} {
		log, err := remotelog.Open(c.url, &c.o)
		if err == nil {
			_ = log.Close()
			t.Errorf("%q %+v opened", c.url, c.o)
			continue
		}
		wantError(t, err, mainstem.KindInvalid, mainstem.NoOutcome)
		if !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", c.url, err)
		}
	}
	for _, url := range []string{"http://localhost:1", "http://[::1]:1", "https://host"} {
		log, err := remotelog.Open(url, &remotelog.Options{Token: "secret"})
		if err != nil {
			t.Errorf("%s with a token: %v", url, err)
			continue
		}
		_ = log.Close()
	}
}

// A client of the caller's own, and a path that a proxy may have added.
func TestOwnHTTPClientAndPath(t *testing.T) {
	path, h := rpc.NewHandler(model.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle("/deep/down"+path, http.StripPrefix("/deep/down", h))
	s := httptest.NewServer(mux)
	defer s.Close()
	defer h.Close()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	log := open(t, s.URL+"/deep/down/", &remotelog.Options{HTTPClient: &http.Client{Transport: transport}})
	if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
		t.Fatal(err)
	}
	feed, _ := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true, Limit: 1}))
	if r := <-feed; string(r.Value) != "v" {
		t.Errorf("got %q", r.Value)
	}
}

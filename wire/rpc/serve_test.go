package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const service = "/mainstem.v1.LogService/"

type server struct {
	*httptest.Server
	handler *rpc.Handler
}

// serve serves log, a new one if that is nil, until the test ends.
func serve(t testing.TB, log mainstem.Log, o *rpc.Options) *server {
	t.Helper()
	if log == nil {
		log = model.New(nil)
	}
	path, h := rpc.NewHandler(log, o)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	s := &server{httptest.NewUnstartedServer(mux), h}
	rpc.ConfigureServer(s.Config)
	s.Start()
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s
}

// answer is what came back over plain HTTP.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code returns the code of an error in JSON.
func (a answer) code() string {
	var e struct{ Code string }
	_ = json.Unmarshal(a.body, &e)
	return e.Code
}

// post sends a request as curl would.
func (s *server) post(t testing.TB, method, contentType string, body []byte, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+service+method, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.do(t, http.DefaultTransport, r)
}

func (s *server) json(t testing.TB, method, body string) answer {
	t.Helper()
	return s.post(t, method, "application/json", []byte(body))
}

func (s *server) do(t testing.TB, transport http.RoundTripper, r *http.Request) answer {
	t.Helper()
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range response.Trailer {
		response.Header[name] = append(response.Header[name], values...)
	}
	return answer{response.StatusCode, response.Header, body}
}

// http2 returns a transport that speaks HTTP/2 in cleartext.
func http2(t testing.TB) *http.Transport {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: p, TLSClientConfig: new(tls.Config)}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dial opens a connection to write anything to.
func (s *server) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// alive fails unless the server still serves.
func (s *server) alive(t *testing.T) {
	t.Helper()
	if a := s.json(t, "Head", "{}"); a.status != http.StatusOK {
		t.Errorf("afterwards the server answers %d %s", a.status, a.body)
	}
}

// commit puts a value straight into log.
func commit(t testing.TB, log mainstem.Log, key string, value []byte) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte(key), value)
	if _, err := log.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

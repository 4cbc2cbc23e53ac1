package remotelog

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// How long a Log with transport Auto uses RPC after a session was refused.
const (
	refusedFor = time.Minute // after an answer of a server or proxy
	brokenFor  = time.Second // after a connection that broke
)

// sessions keeps the session of a Log, and dials a new one when that is lost.
type sessions struct {
	url       string
	transport *http.Transport // for upgrades only; nil: there are no sessions
	token     atomic.Pointer[string]
	may       bool // RPC may be used instead
	learn     func(*http.Request)
	numbers   atomic.Uint64 // number of the newest call

	mu struct {
		sync.Mutex
		current *session  // nil: none yet; it may have ended
		dial    *dial     // present attempt; nil: none
		until   time.Time // until then RPC is used
		why     error     // why RPC is used; nil: it was never used
		key     wire.Key  // of the newest session; zero: there was none
	}
}

// dial is one attempt to open a session. All calls that come meanwhile wait for it.
type dial struct {
	done    chan struct{} // closed when the fields below are set
	session *session
	err     *mainstem.Error // nil, and session nil: use RPC
}

// init sets up the sessions to the server at u. If sessions are refused, learn determines the
// version of HTTP for RPC.
func (s *sessions) init(u *url.URL, o *Options, learn func(*http.Request)) {
	s.learn = learn
	s.url, s.may = strings.TrimRight(u.String(), "/")+wire.Path, o.Transport == Auto
	s.token.Store(&o.Token)
	if o.Transport == RPC || o.Transport == Auto && o.onlyRPC() {
		return
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	secure := o.TLS.Clone()
	if secure == nil {
		secure = new(tls.Config)
	}
	secure.NextProtos = []string{"http/1.1"}
	s.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: secure,
		TLSHandshakeTimeout: dialTimeout, DisableKeepAlives: true, DisableCompression: true, Protocols: new(http.Protocols),
	}
	s.transport.Protocols.SetHTTP1(true) // HTTP/2 has no upgrades
}

// SetToken changes the token that is presented from now on; see [Options.Token]. It is also sent
// in the open session, which then continues when the token of the server changes.
func (l *Log) SetToken(token string) {
	s := &l.sessions
	s.token.Store(&token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.current != nil {
		s.mu.current.conn.Post(wire.AppendFrame(nil, wire.TypeToken, 0, 0, []byte(token)))
	}
}

// transportNow returns the transport of calls made now and, if [Auto] has fallen back to RPC,
// why.
func (l *Log) transportNow() (t Transport, why string) {
	s := &l.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if cur := s.mu.current; cur != nil && cur.usable() {
		return Sessions, ""
	}
	if s.mu.why != nil {
		why = s.mu.why.Error()
	}
	return RPC, why
}

// session returns a session, or nil if the call must be made by RPC; with must set, RPC is not
// allowed. If it returns an error, nothing has been sent.
func (l *Log) session(ctx context.Context, c call, must bool) (*session, *mainstem.Error) {
	s := &l.sessions
	if s.transport == nil {
		return nil, nil
	}
	s.mu.Lock()
	if cur := s.mu.current; cur != nil && cur.usable() {
		s.mu.Unlock()
		return cur, nil
	}
	if s.may && !must && time.Now().Before(s.mu.until) {
		s.mu.Unlock()
		return nil, nil
	}
	d := s.mu.dial
	if d == nil {
		d = &dial{done: make(chan struct{})}
		if !l.inBackground(func() { l.dial(d) }) {
			s.mu.Unlock()
			return nil, c.closed(mainstem.NotWritten)
		}
		s.mu.dial = d
	}
	s.mu.Unlock()
	select {
	case <-d.done:
	case <-ctx.Done():
		return nil, c.ended(ctx, mainstem.NotWritten)
	case <-l.closing.Done():
		return nil, c.closed(mainstem.NotWritten)
	}
	if d.err != nil {
		e := c.fail(d.err.Kind, mainstem.NotWritten, d.err.Err)
		e.Hint = d.err.Hint
		return nil, e
	}
	return d.session, nil
}

// inBackground runs f in a goroutine that Close waits for. If the Log is closed, it returns false
// and does not run f.
func (l *Log) inBackground(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.background.Go(f)
	return true
}

// dial makes one attempt and, if it succeeds, reads from the session until that ends.
func (l *Log) dial(d *dial) {
	s := &l.sessions
	s.mu.Lock()
	key := s.mu.key
	s.mu.Unlock()
	established, rpcFor, err := s.upgrade(l.closing, key)
	if rpcFor > 0 {
		s.learnRPC(l.closing)
	}
	s.mu.Lock()
	s.mu.dial = nil
	d.session, d.err = established, err
	if established != nil {
		s.mu.current, s.mu.key = established, established.key
	}
	if rpcFor > 0 {
		s.mu.until = time.Now().Add(rpcFor)
	}
	close(d.done)
	s.mu.Unlock()
	if established == nil {
		return
	}
	defer context.AfterFunc(l.killed, func() { established.conn.Close(errClosed) })()
	established.read()
}

// upgrade requests a session from the server. If it returns neither a session nor an error, RPC
// must be used for rpcFor.
func (s *sessions) upgrade(ctx context.Context, key wire.Key) (_ *session, rpcFor time.Duration, _ *mainstem.Error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var conn net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conn = i.Conn }})
	request, err := s.request(ctx)
	if err != nil {
		return nil, 0, unavailable(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", wire.Protocol)
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		if conn != nil && s.may {
			return nil, s.fallBack(brokenFor, err), nil // RPC finds the cause
		}
		e := unavailable(err)
		e.Hint = "is a Mainstem server running there?"
		return nil, 0, e
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close()
		rpcFor, e := s.refused(response)
		return nil, rpcFor, e
	}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout)) // fails only if the connection does
	c := wire.New(conn, wire.Windows{Call: wire.SmallMessage, Session: wire.SmallMessage}, nil)
	defer context.AfterFunc(ctx, func() { c.Close(errClosed) })()
	established, err := newSession(c, key, &s.numbers)
	if err != nil {
		c.Close(err)
		c.Wait()
		if s.may {
			return nil, s.fallBack(brokenFor, err), nil
		}
		return nil, 0, unavailable(err)
	}
	return established, 0, nil
}

// learnRPC determines the version of HTTP for RPC, before RPC is used.
func (s *sessions) learnRPC(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	if r, err := s.request(ctx); err == nil {
		s.learn(r)
	}
}

// request returns a request for a session, without the headers of the upgrade.
func (s *sessions) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token := *s.token.Load(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

// refused handles an answer that is no upgrade: it returns how long to use RPC, or an error.
func (s *sessions) refused(r *http.Response) (rpcFor time.Duration, _ *mainstem.Error) {
	said := refusalOf(r)
	switch r.StatusCode {
	case http.StatusUnauthorized:
		return 0, &mainstem.Error{Kind: mainstem.KindDenied, Err: said, Hint: "is Options.Token the token of the server?"}
	case http.StatusForbidden:
		return 0, &mainstem.Error{Kind: mainstem.KindDenied, Err: said}
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return 0, unavailable(said)
	}
	if s.may {
		return s.fallBack(refusedFor, said), nil
	}
	if r.StatusCode == http.StatusInternalServerError {
		return 0, unavailable(said)
	}
	return 0, &mainstem.Error{Kind: mainstem.KindUnsupported, Err: said, Hint: "does the URL lead to a Mainstem server of this version? A proxy may refuse upgrades: use RPC"}
}

// fallBack records why RPC is used for the time d.
func (s *sessions) fallBack(d time.Duration, why error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.why = why
	return d
}

func unavailable(err error) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Err: err}
}

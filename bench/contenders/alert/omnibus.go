package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/alert/omnibus"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

// factoryPath is where the OMNIbus interface takes statements.
const factoryPath = "/objectserver/restapi/sql/factory"

// httpServers are object servers with the OMNIbus interface, one for each engine.
func httpServers() []suite.Server {
	var all []suite.Server
	for _, e := range embedded() {
		all = append(all, httpServer(e))
	}
	return all
}

func kind(e engines.Engine) string { return strings.TrimPrefix(e.Name, "mainstem-pebble-") }

func httpServer(e engines.Engine) suite.Server {
	return suite.Server{Name: "mainstem-omnibus-" + kind(e), Start: func(ctx context.Context, dir string) (string, func() error, error) {
		return serve(ctx, e, dir)
	}}
}

// serve serves an object server on a free port of loopback.
func serve(ctx context.Context, e engines.Engine, dir string) (string, func() error, error) {
	// The server outlives the call that starts it.
	tables, err := openOne(context.WithoutCancel(ctx), e, &suite.Env{Dir: dir, Log: slog.New(slog.DiscardHandler)}, dir)
	if err != nil {
		return "", nil, err
	}
	handler, err := omnibus.New(tables.Server, nil)
	if err != nil {
		return "", nil, errors.Join(err, tables.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, handler.Close(), tables.Close())
	}
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() error {
		err := errors.Join(handler.Close(), server.Close())
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return errors.Join(err, tables.Close())
	}, nil
}

// overHTTP are two object servers behind the OMNIbus interface, asked by REST.
func overHTTP() []alert.Factory {
	var all []alert.Factory
	for _, e := range embedded() {
		all = append(all, alert.Factory{
			Name: "mainstem-omnibus-" + kind(e), Durability: e.Durability, Transport: suite.LoopbackHTTP, Note: "two object servers behind the OMNIbus HTTP interface, asked over loopback",
			Open: func(ctx context.Context, env *suite.Env, dir string) (alert.Server, error) {
				c := newClient()
				for i := range alert.Clusters {
					part := filepath.Join(dir, strconv.Itoa(i))
					if err := os.MkdirAll(part, 0o755); err != nil {
						return nil, errors.Join(err, c.Close())
					}
					url, stop, err := env.Serve(ctx, httpServer(e), part)
					if err != nil {
						return nil, errors.Join(err, c.Close())
					}
					c.urls, c.stop = append(c.urls, url), append(c.stop, stop)
				}
				return c, nil
			},
		})
	}
	return all
}

// configured is the durability of servers that somebody else has set up.
const configured suite.Durability = "as configured"

// address is servers with the OMNIbus interface that the user names, IBM's too.
func address() alert.Factory {
	return alert.Factory{
		Name: "omnibus", Durability: configured, Transport: suite.LoopbackHTTP, Address: "omnibus", Note: "servers at --address omnibus=URL,URL with the user root and no password; rows of the bench are left there",
		Skip: suite.NeedAddress("omnibus"),
		Open: func(_ context.Context, env *suite.Env, _ string) (alert.Server, error) {
			a, err := env.Address("omnibus")
			if err != nil {
				return nil, err
			}
			c := newClient()
			if c.urls = strings.Split(a, ","); len(c.urls) != alert.Clusters {
				return nil, suite.Skipf("%d addresses of kind omnibus, want %d separated by commas", len(c.urls), alert.Clusters)
			}
			return c, nil
		},
	}
}

// client asks servers by REST. It keeps a connection for each of its callers.
type client struct {
	http *http.Client
	urls []string
	stop []func() error
}

func newClient() *client {
	return &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
}

func (c *client) Ask(ctx context.Context, statement string) ([]alert.Answer, error) {
	body, err := json.Marshal(map[string]string{"sqlcmd": statement})
	if err != nil {
		return nil, err
	}
	return everywhere(len(c.urls), func(i int) (alert.Answer, error) { return c.post(ctx, c.urls[i], body) })
}

func (c *client) post(ctx context.Context, url string, body []byte) (a alert.Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+factoryPath, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth("root", "")
	resp, err := c.http.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	var answer struct {
		Rowset struct {
			Affected int              `json:"affectedRows"`
			Rows     []map[string]any `json:"rows"`
		} `json:"rowset"`
	}
	err = json.Unmarshal(text, &answer)
	return alert.Answer{Affected: answer.Rowset.Affected, Rows: answer.Rowset.Rows}, err
}

func (c *client) Close() error {
	c.http.CloseIdleConnections()
	var err error
	for _, stop := range c.stop {
		err = errors.Join(err, stop())
	}
	return err
}

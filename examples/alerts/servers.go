package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// Who asks. In earnest a password is not in the source.
const (
	user     = "root"
	password = "secret"
)

// bed is two object servers, a coordinator, and clients of all three.
type bed struct {
	servers     [2]*objectServer
	coordinator *front

	native  [2]*omnirest.Client
	clients *client.Client
}

// openBed starts everything. Each server is a cluster of its own.
func openBed(ctx context.Context, data string) (b *bed, err error) {
	b = new(bed)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	config := new(coordinator.Config)
	config.OMNIbus.Clusters = map[string][]string{}
	// Nothing here is to be given up because the machine has other things to do.
	config.HTTP.Timeout = timeout
	o := &config.OMNIbus
	o.DialTimeout, o.WaitTimeout, o.QueryTimeout, o.HealthTimeout = timeout, timeout, timeout, timeout
	for i := range b.servers {
		name := fmt.Sprint("AGG", i+1)
		if b.servers[i], err = openServer(ctx, name, directory(data, name)); err != nil {
			return b, err
		}
		if b.native[i], err = omnirest.New(b.servers[i].url, &omnirest.Options{User: user, Password: password}); err != nil {
			return b, err
		}
		o.Clusters[name] = []string{b.servers[i].web.address()}
	}
	if b.coordinator, err = openFront(config); err != nil {
		return b, err
	}
	b.clients, err = client.New(b.coordinator.url, &client.Options{User: user, Password: password})
	return b, err
}

// close closes what is open, readers first.
func (b *bed) close() error {
	var errs []error
	if b.clients != nil {
		errs = append(errs, b.clients.Close())
	}
	for _, c := range b.native {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if b.coordinator != nil {
		errs = append(errs, b.coordinator.close())
	}
	for _, s := range b.servers {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

// objectServer is alert tables on a log of their own, served over HTTP.
type objectServer struct {
	log     mainstem.Log
	tables  *alert.Server
	handler *omnibus.Handler
	web     *listener
	url     string
}

// openServer opens the log in a directory, or in memory, and serves it.
func openServer(ctx context.Context, name, dir string) (s *objectServer, err error) {
	s = new(objectServer)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	var log mainstem.Log
	if dir == "" {
		log, err = pebblelog.OpenMemory(nil)
	} else {
		log, err = pebblelog.Open(dir, nil)
	}
	if err != nil {
		return s, err
	}
	s.log = log
	if s.tables, err = alert.Open(ctx, s.log, &alert.Options{Name: name}); err != nil {
		return s, err
	}
	users := omnibus.NewUsers()
	if err := users.Set(omnibus.Identity{User: user, Role: omnibus.Admin}, password); err != nil {
		return s, err
	}
	if s.handler, err = omnibus.New(s.tables, &omnibus.Options{Users: users}); err != nil {
		return s, err
	}
	if s.web, err = listen(ctx, &http.Server{Handler: http.NewCrossOriginProtection().Handler(s.handler), ReadHeaderTimeout: timeout}); err != nil {
		return s, err
	}
	s.url = "http://" + s.web.address()
	return s, nil
}

// close closes the handler before what it serves, and the tables before their log.
func (s *objectServer) close() error {
	var errs []error
	if s.handler != nil {
		errs = append(errs, s.handler.Close())
	}
	if s.web != nil {
		errs = append(errs, s.web.close())
	}
	if s.tables != nil {
		errs = append(errs, s.tables.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}

// front is a coordinator, served over HTTP.
type front struct {
	c   *coordinator.Coordinator
	web *listener
	url string
}

func openFront(config *coordinator.Config) (*front, error) {
	c, err := coordinator.Open(config, nil)
	if err != nil {
		return nil, err
	}
	web, err := listen(context.Background(), c.Server())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &front{c, web, "http://" + web.address()}, nil
}

func (f *front) close() error { return errors.Join(f.web.close(), f.c.Close()) }

// listener is an HTTP server on a port of this machine.
type listener struct {
	server *http.Server
	at     net.Addr
	served chan error
}

func listen(ctx context.Context, server *http.Server) (*listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &listener{server, l.Addr(), make(chan error, 1)}
	go func() { w.served <- server.Serve(l) }()
	return w, nil
}

func (w *listener) address() string { return w.at.String() }

func (w *listener) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := w.server.Shutdown(ctx)
	if served := <-w.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

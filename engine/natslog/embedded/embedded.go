package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
)

// Options configures [Open]. Nil and zero fields mean the defaults.
type Options struct {
	// Log are the options of the log on the server.
	Log natslog.Options
	// Durability is what every commit has reached when it returns. Default
	// [mainstem.Fsync]; with [mainstem.Interval] the server syncs that often, with
	// [mainstem.OS] every two minutes. A batch that asks for less or more gets this.
	Durability mainstem.Durability
	// Listen is an address such as 127.0.0.1:4222 where the server accepts clients.
	// Default: none, only this process reaches it. Beyond loopback it needs Username.
	Listen string
	// Username and Password are what clients who come over Listen must present.
	Username, Password string
	// MaxPayload is the largest message in bytes. Default 32 MiB.
	MaxPayload int
	// MaxStore bounds the store in bytes. Default: what the server finds fit for the disk.
	MaxStore int64
}

// The defaults.
const (
	DefaultMaxPayload = 32 << 20
	maxPayload        = 64 << 20
	startTimeout      = 30 * time.Second
)

// Log is a log and the embedded server that stores it.
type Log struct {
	*natslog.Log
	server *server.Server
	conn   *nats.Conn
	lock   *os.File
	dir    string
}

// Open starts a server with its store in dir and opens the log on it. It creates
// the directory.
func Open(dir string, o *Options) (*Log, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	so, err := c.server(dir)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+dir, "%w", err)
	}
	if _, err := os.Stat(dir); c.Log.MustExist && errors.Is(err, fs.ErrNotExist) {
		return nil, mainstem.Errorf(mainstem.KindNotFound, "open "+dir, "%w", err)
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{lock: lock, dir: dir}
	if err := l.start(dir, so, &c.Log); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// start starts the server and opens the log.
func (l *Log) start(dir string, so *server.Options, o *natslog.Options) error {
	srv, err := server.NewServer(so)
	if err != nil {
		return mainstem.Errorf(mainstem.KindInvalid, "open "+dir, "%w", err)
	}
	l.server = srv
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) {
		return mainstem.Errorf(mainstem.KindUnavailable, "open "+dir, "the NATS server is not ready after %v", startTimeout)
	}
	if !srv.JetStreamEnabled() {
		return mainstem.Errorf(mainstem.KindUnavailable, "open "+dir, "the NATS server could not start JetStream: is the directory writable and the disk not full?")
	}
	l.conn, err = nats.Connect("", nats.InProcessServer(srv), nats.Name("mainstem"), nats.Timeout(startTimeout),
		nats.UserInfo(so.Username, so.Password), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return mainstem.Errorf(mainstem.KindInternal, "open "+dir, "%w", err)
	}
	l.Log, err = natslog.OpenConn(l.conn, o)
	return err
}

// Close closes the log and stops the server.
func (l *Log) Close() error {
	var err error
	if l.Log != nil {
		err = l.Log.Close()
	}
	if l.conn != nil {
		l.conn.Close()
	}
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
	}
	if l.lock != nil {
		_ = os.Remove(filepath.Join(l.dir, ownerName))
		err = errors.Join(err, l.lock.Close())
		l.lock = nil
	}
	return err
}

// URL returns where clients connect, "" if the server does not listen.
func (l *Log) URL() string {
	a := l.server.Addr()
	if a == nil {
		return ""
	}
	return "nats://" + a.String()
}

// server returns the options of the server.
func (o *Options) server(dir string) (*server.Options, error) {
	so := &server.Options{
		ServerName: "mainstem", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: o.MaxStore,
		Username: o.Username, Password: o.Password,
	}
	if o.MaxPayload < 0 || o.MaxPayload > maxPayload {
		return nil, fmt.Errorf("MaxPayload is %d: want 0 (default) to %d", o.MaxPayload, maxPayload)
	}
	so.MaxPayload = int32(o.MaxPayload)
	so.MaxPending = max(server.MAX_PENDING_SIZE, 4*int64(o.MaxPayload))
	switch period, ok := o.Durability.Period(); {
	case ok:
		so.SyncInterval = period
	case o.Durability == mainstem.OS:
		so.SyncInterval = 2 * time.Minute
	case o.Durability == mainstem.Fsync || o.Durability == mainstem.DefaultDurability:
		so.SyncAlways = true
	default:
		return nil, fmt.Errorf("durability %d is not one that this version knows", int64(o.Durability))
	}
	if o.Listen == "" {
		return so, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("address to listen on: %w", err)
	}
	if ip := net.ParseIP(host); o.Username == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is beyond loopback: Listen needs a Username there", o.Listen)
	}
	if so.Port, err = strconv.Atoi(port); err != nil || so.Port < 0 || so.Port > math.MaxUint16 {
		return nil, fmt.Errorf("the port of Listen is %q", port)
	}
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	so.Host, so.DontListen = host, false
	return so, nil
}

// Scheme is what addresses of embedded servers begin with; see [OpenURL].
const Scheme = "nats:embedded"

// OpenURL is [Open] by an address, which overrides the options:
//
//	nats:embedded?store=DIR&listen=127.0.0.1:4222&durability=fsync&stream=ORDERS
//
// Only store is needed.
func OpenURL(address string, o *Options) (*Log, error) {
	var c Options
	if o != nil {
		c = *o
	}
	dir := ""
	rest, ok := strings.CutPrefix(address, Scheme)
	query, hasQuery := strings.CutPrefix(rest, "?")
	if !ok || rest != "" && !hasQuery {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+address, "the address does not begin with %s?", Scheme)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+address, "%w", err)
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "store":
			dir = value
		case "listen":
			c.Listen = value
		case "stream":
			c.Log.Stream = value
		case "durability":
			if c.Durability, err = mainstem.ParseDurability(value); err != nil {
				return nil, err
			}
		default:
			return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+address, "the parameter %q is not known: want store, listen, durability or stream", name)
		}
	}
	if dir == "" {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+address, "the parameter store, a directory, is missing")
	}
	return Open(dir, &c)
}

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/engine/natslog/embedded"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// Memory is the target of [OpenLog] for a new log in memory.
const Memory = "memory:"

// LogOptions configures [OpenLog]. Nil and zero fields mean the defaults of the engine that the
// target selects; fields that the engine does not have are ignored.
type LogOptions struct {
	// Embedded engines.
	Durability mainstem.Durability
	Limits     mainstem.Limits
	CacheBytes int64
	MemTable   int64
	MinFree    int64
	BatchIDAge time.Duration
	SweepEvery time.Duration
	// MustExist makes opening fail with NotFound instead of creating a log. It is for programs
	// that only read: with it, a directory that cannot be written, or that has an older format,
	// is opened read-only, see [pebblelog.Options.ReadOnly]. Without it, opening such a
	// directory fails.
	MustExist bool
	// Upgrade raises the format of an older directory: see [pebblelog.Options.Upgrade].
	Upgrade bool

	// Servers.
	Token    string // bearer token
	TLSCA    string // PEM file of the authorities to trust instead of the system's
	Insecure bool   // send the token to another machine without TLS

	Logger *slog.Logger
}

// engine opens the logs whose targets begin with one of its schemes.
type engine struct {
	schemes []string
	form    string // form of a target, for error messages
	open    func(ctx context.Context, target string, o *LogOptions) (mainstem.Log, error)
}

// engines lists the engines that targets can select. A target that begins with no scheme is a
// directory.
var engines = []engine{
	{[]string{Memory}, "memory:", openMemory},
	{[]string{"http://", "https://"}, "http://HOST:PORT", openRemote},
	{[]string{"nats://", "tls://", "ws://", "wss://"}, "nats://HOST:PORT", openNATS},
	{[]string{"nats:embedded"}, "nats:embedded?store=DIRECTORY", openEmbedded},
	{[]string{"postgres://", "postgresql://"}, "postgres://HOST/DATABASE", openPostgres},
}

// scheme matches targets that begin like "name://", which cannot be meant as directories.
var scheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://`)

// OpenLog opens the log that target names: a directory, "memory:", the URL of a running server,
// of NATS servers or of a PostgreSQL database, or an embedded NATS server. The caller owns the
// log and must close it.
func OpenLog(ctx context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	if o == nil {
		o = &LogOptions{}
	}
	for _, e := range engines {
		for _, s := range e.schemes {
			if strings.HasPrefix(target, s) {
				return e.open(ctx, target, o)
			}
		}
	}
	if target == "" || scheme.MatchString(target) {
		forms := []string{"a directory"}
		for _, e := range engines {
			forms = append(forms, e.form)
		}
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open", "%q names no log: want %s", redact.Address(target), strings.Join(forms, ", "))
	}
	return openDirectory(target, o)
}

// Redacted returns a target of [OpenLog] without the passwords and tokens in it.
func Redacted(target string) string { return redact.Address(target) }

// isRemote reports whether another process serves target.
func isRemote(target string) bool {
	return strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

func (o *LogOptions) pebble() *pebblelog.Options {
	return &pebblelog.Options{
		Durability: o.Durability, Limits: o.Limits, CacheBytes: o.CacheBytes, MemTableBytes: int(o.MemTable),
		MinFree: o.MinFree, BatchIDAge: o.BatchIDAge, SweepEvery: o.SweepEvery,
		MustExist: o.MustExist, Upgrade: o.Upgrade, Logger: o.Logger,
	}
}

// openDirectory opens a directory. With MustExist it opens a directory read-only if it cannot be
// written or would need an upgrade.
func openDirectory(dir string, o *LogOptions) (mainstem.Log, error) {
	p := o.pebble()
	log, err := pebblelog.Open(dir, p)
	readable := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || mainstem.KindOf(err) == mainstem.KindInvalid
	if o.MustExist && readable {
		p.ReadOnly = true
		log, err = pebblelog.Open(dir, p)
	}
	if err != nil {
		return nil, err // not log, since an interface with a nil pointer is not nil
	}
	return log, nil
}

func openMemory(_ context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	if target != Memory {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open", "%q: memory: is all there is, nothing may follow", target)
	}
	log, err := pebblelog.OpenMemory(o.pebble())
	if err != nil {
		return nil, err
	}
	return log, nil
}

func openRemote(_ context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	trust, err := ClientTLS(o.TLSCA)
	if err != nil {
		return nil, err
	}
	log, err := remotelog.Open(target, &remotelog.Options{Token: o.Token, TLS: trust, Insecure: o.Insecure})
	if err != nil {
		return nil, err
	}
	return log, nil
}

func (o *LogOptions) nats() natslog.Options {
	return natslog.Options{
		Limits: o.Limits, CacheBytes: o.CacheBytes, BatchIDAge: o.BatchIDAge, SweepEvery: o.SweepEvery,
		MustExist: o.MustExist, Logger: o.Logger,
	}
}

func openNATS(_ context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	trust, err := ClientTLS(o.TLSCA)
	if err != nil {
		return nil, err
	}
	opts := o.nats()
	if trust != nil {
		opts.Connect = append(opts.Connect, nats.Secure(trust))
	}
	log, err := natslog.Open(target, &opts)
	if err != nil {
		return nil, err
	}
	return log, nil
}

func openEmbedded(_ context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	log, err := embedded.OpenURL(target, &embedded.Options{Log: o.nats(), Durability: o.Durability})
	if err != nil {
		return nil, err
	}
	return log, nil
}

func openPostgres(ctx context.Context, target string, o *LogOptions) (mainstem.Log, error) {
	log, err := pglog.Open(ctx, target, &pglog.Options{
		Durability: o.Durability, Limits: o.Limits, BatchIDAge: o.BatchIDAge, SweepEvery: o.SweepEvery,
		MustExist: o.MustExist, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// ClientTLS returns the TLS configuration of a client that trusts the authorities in a PEM file,
// or nil, which means those of the system, if ca is empty.
func ClientTLS(ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	pem, err := readfile.All(ca, readfile.Text)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-ca", Err: err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "tls-ca "+ca, "the file holds no PEM certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// exclusive reports whether no other process can open log while it is open.
func exclusive(log mainstem.Log) bool {
	switch log := log.(type) {
	case *pebblelog.Log:
		return true
	case *embedded.Log:
		return log.URL() == "" // the NATS server does not listen
	}
	return false
}
